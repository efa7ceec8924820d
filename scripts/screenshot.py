"""Takes the README's picture of the console: a short real call against a running service.

python scripts/screenshot.py http://127.0.0.1:8080/ docs/console.png
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import soxr
from playwright.sync_api import sync_playwright

SPEECH = Path(__file__).parent.parent / "tests" / "data" / "speech"
SCRIPT = ((5.0, "sb_spk1_snt5"), (6.5, "lk_hello"), (5.0, "en_living_room_lamp"), (1.7, "ds_home"), (9.0, None))


def sound() -> np.ndarray:
    """The caller's side of the call at 48 kHz."""
    parts = []
    for pause, name in SCRIPT:
        parts.append(np.zeros(int(pause * 48_000), np.float32))
        if name:
            pcm, rate = soundfile.read(SPEECH / f"{name}.flac", dtype="float32", always_2d=True)
            parts.append(soxr.resample(pcm.mean(axis=1), rate, 48_000))
    return np.concatenate(parts)


def main(url: str, picture: str) -> None:
    """Call, talk, photograph at the end."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        clip = f"{folder}/microphone.wav"
        pcm = sound()
        soundfile.write(clip, pcm, 48_000, subtype="PCM_16")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=[
                "--no-sandbox",
                "--use-fake-ui-for-media-stream",
                "--use-fake-device-for-media-stream",
                "--autoplay-policy=no-user-gesture-required",
                f"--use-file-for-fake-audio-capture={clip}%noloop",
            ],
        )
        page = browser.new_page(viewport={"width": 1120, "height": 640}, device_scale_factor=1.5)
        page.goto(url)
        page.wait_for_selector("#voice option", state="attached")
        page.get_by_role("button", name="Call", exact=True).click()
        page.wait_for_timeout(int(len(pcm) / 48) - 3000)
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
