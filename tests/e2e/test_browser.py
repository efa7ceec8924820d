"""The console in headless Chromium, with a recording as its microphone."""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Error, Page, expect, sync_playwright

from tests.conftest import Server, recording

pytestmark = [pytest.mark.models, pytest.mark.browser]

QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
CALL = [
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
]


@pytest.fixture
def browse(server: Server, tmp_path: Path) -> Callable:
    """Opens the console with this sound as its microphone, once and not in a loop."""

    @contextmanager
    def opened(sound: np.ndarray, **context) -> Iterator[Page]:
        clip = tmp_path / "microphone.wav"
        soundfile.write(clip, sound, 48_000, subtype="PCM_16")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium") or "chromium",
                args=["--no-sandbox", *QUIET, *CALL, f"--use-file-for-fake-audio-capture={clip}%noloop"],
            )
            page = browser.new_page(**context)
            page.on("pageerror", lambda error: pytest.fail(f"the page broke: {error}"))
            page.goto(server.url("/"))
            expect(page.locator("#voice option")).not_to_have_count(0)
            yield page
            browser.close()

    return opened


def test_a_person_talks_is_answered_and_interrupts(browse: Callable) -> None:
    question, over = recording("sb_spk1_snt5", 48_000), recording("en_living_room_lamp", 48_000)
    sound = np.concatenate(
        [
            np.zeros(48_000 * 4, np.float32),
            question,
            np.zeros(int(48_000 * 2.2), np.float32),
            over,
            np.zeros(48_000 * 8, np.float32),
        ]
    )
    with browse(sound) as page:
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator("#status")).to_have_text("in a call", timeout=15_000)
        expect(page.locator(".say.agent").first).to_contain_text("help you", timeout=10_000)
        expect(page.locator(".say.you").first).to_contain_text("best part of the week", timeout=15_000)
        expect(page.locator(".say.agent").nth(1)).to_be_visible(timeout=10_000)
        expect(page.locator(".say.you").nth(1)).to_contain_text("living room lamp", timeout=20_000)
        expect(page.locator(".turn")).not_to_have_count(0, timeout=20_000)
        expect(page.locator(".turn .bar i").first).to_be_visible()
        received = page.evaluate(
            """async () => { const stats = await window.halfsecond.peer.getStats(); let n = 0;
            stats.forEach((s) => { if (s.type === "inbound-rtp") n = s.totalAudioEnergy; }); return n; }"""
        )
        assert received > 0, "no agent audio reached the page"
        page.get_by_role("button", name="Hang up").click()
        expect(page.locator("#status")).to_have_text("the call ended")
        look_the_call_up_and_delete_it(page)


def look_the_call_up_and_delete_it(page: Page) -> None:
    page.wait_for_timeout(1_000)
    page.get_by_role("link", name="Calls", exact=True).click()
    before = page.locator("#rows tr").count()
    page.locator("#rows a").first.click()
    expect(page.locator(".exchange").first).to_contain_text("best part of the week")
    expect(page.locator(".exchange .bar i").first).to_be_visible()
    expect(page.locator("#sound")).to_have_attribute("src", re.compile("^blob:"))
    picture = 'document.getElementById("wave").getContext("2d").getImageData(0, 0, 1200, 220)'
    drawn = f"() => {picture}.data.some((v) => v)"
    page.wait_for_function(drawn)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete this call").click()
    expect(page.locator("#list")).to_be_visible()
    expect(page.locator("#rows tr")).to_have_count(max(0, before - 1))


STORY = (
    "Hello! Before you ask, let me tell you of a town by the sea, where the trains stop twice a day. "
    "In the morning they bring the children to school, and in the evening they bring the fishermen home. "
    "Nobody there owns a clock, and nobody is ever late."
)
"""Spoken as the greeting: a model's own answer may be too short to be interrupted."""


def test_barge_in_strikes_out_what_was_not_heard(browse: Callable) -> None:
    over = recording("en_living_room_lamp", 48_000)
    sound = np.concatenate([np.zeros(48_000 * 5, np.float32), over, np.zeros(48_000 * 9, np.float32)])
    with browse(sound) as page:
        page.evaluate("story => { window.halfsecond.greeting = story; }", STORY)
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator(".say.agent.cut s").first).to_be_visible(timeout=25_000)
        expect(page.locator(".say.agent.cut").first).to_contain_text("Hello! Before you ask")
        expect(page.locator(".say.agent.cut s").first).to_contain_text(re.compile(r"\w"))


def test_mute_keeps_the_caller_unheard(browse: Callable, server: Server) -> None:
    sound = np.concatenate(
        [np.zeros(48_000 * 4, np.float32), recording("sb_spk1_snt5", 48_000), np.zeros(48_000 * 5, np.float32)]
    )
    with browse(sound) as page:
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator("#status")).to_have_text("in a call", timeout=15_000)
        page.get_by_role("button", name="Mute").click()
        expect(page.get_by_role("button", name="Unmute")).to_have_attribute("aria-pressed", "true")
        page.wait_for_timeout(8_000)
        expect(page.locator(".say.you")).to_have_count(0)


def test_the_page_fits_a_phone(browse: Callable) -> None:
    with browse(np.zeros(48_000, np.float32), viewport={"width": 360, "height": 740}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for name in ("Call", "Mute", "Hang up"):
            expect(page.get_by_role("button", name=name, exact=True)).to_be_in_viewport()


def wait_until_idle(server: Server) -> None:
    with ThreadPoolExecutor(1) as aside:  # a browser that is driven synchronously holds this thread's event loop
        aside.submit(lambda: asyncio.run(server.idle())).result()


@pytest.mark.parametrize("end", ["about:blank", "chrome://crash"])
def test_a_page_that_goes_away_gives_its_place_back(browse: Callable, server: Server, end: str) -> None:
    wait_until_idle(server)
    with browse(np.zeros(48_000, np.float32)) as page:
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator("#status")).to_have_text("in a call", timeout=15_000)
        assert server.metric("halfsecond_calls_active") == 1
        with suppress(Error):  # a page that crashes tells so
            page.goto(end)
        wait_until_idle(server)
