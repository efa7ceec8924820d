"""SIP with the real service: baresip as a softphone that plays a recording, sipp's scenarios, and their records."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests import programs
from tests.conftest import Server, eventually, free_port, recording, start_server, stop_server

pytestmark = [pytest.mark.models, pytest.mark.slow]

BARESIP = """\
sip_listen 127.0.0.1:{port}
audio_source aufile,{folder}/microphone.wav
audio_player aufile,{folder}/none.wav
ausrc_srate {rate}
auplay_srate {rate}
ausrc_channels 1
auplay_channels 1
snd_path {folder}
module_path /usr/lib/baresip/modules
module g711.so
module g722.so
module aufile.so
module sndfile.so
module_tmp account.so
module_app menu.so
"""


@dataclass(frozen=True)
class SipServer:
    server: Server
    port: int

    def calls(self, path: str = "") -> dict:
        return json.loads(self.server.get(f"/v1/calls{path}")[1])

    def last(self) -> dict:
        return self.calls("/" + self.calls()["calls"][0]["id"])


@pytest.fixture(scope="module")
def sip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SipServer]:
    port = free_port()
    flags = ("--llm.max_tokens", "40", "--call.target", "10", "--call.max_calls", "4", "--admission.capacity", "4")
    process, running = start_server(
        tmp_path_factory.mktemp("sip"), "--sip", "--sip.port", str(port), "--sip.rtp_ports", "[23000,24000]", *flags
    )
    yield SipServer(running, port)
    assert stop_server(process) == 0, running.log.read_text()[-3000:]
    assert "Traceback" not in running.log.read_text(), running.log.read_text()[-6000:]


async def sipp(sip: SipServer, scenario: str, *flags: str) -> None:
    await programs.sipp(sip.port, scenario, *flags, patience=30)


async def softphone(sip: SipServer, folder: Path, codec: str, rate: int, speech: np.ndarray) -> tuple[np.ndarray, int]:
    """Call with baresip, `speech` for a microphone until it ends; returns what the agent sent, and its rate."""
    soundfile.write(folder / "microphone.wav", speech, rate, subtype="PCM_16")
    (folder / "config").write_text(BARESIP.format(port=free_port(), folder=folder, rate=rate))
    (folder / "accounts").write_text(f"<sip:+4930123@127.0.0.1>;regint=0;audio_codecs={codec}/{rate}\n")
    seconds = len(speech) / rate
    dial = f"/dial sip:agent@127.0.0.1:{sip.port}"
    said = await programs.run("baresip", "-f", str(folder), "-t", f"{seconds + 3:.0f}", "-e", dial)
    assert f"Set audio decoder: {codec.upper()}" in said
    heard = next(name for name in os.listdir(folder) if name.startswith("dump-") and name.endswith("-dec.wav"))
    return soundfile.read(folder / heard, dtype="float32")


@pytest.mark.parametrize(("codec", "rate"), [("pcmu", 8_000), ("pcma", 8_000), ("g722", 16_000)])
async def test_a_softphone_is_greeted_and_answered(sip: SipServer, tmp_path: Path, codec: str, rate: int) -> None:
    speech = np.concatenate(
        [np.zeros(4 * rate, np.float32), recording("sb_spk1_snt5", rate), np.zeros(6 * rate, np.float32)]
    )
    heard, own = await softphone(sip, tmp_path, codec, rate, speech)
    loud = np.sqrt((heard[: len(heard) // 160 * 160].reshape(-1, 160) ** 2).mean(axis=1)) > 0.01
    step = 160 / own
    assert loud[: round(3.5 / step)].sum() * step > 0.8, "greeted"
    assert loud[round(5.5 / step) :].sum() * step > 0.5, "answered"
    await sip.server.idle()
    call = sip.last()
    assert (call["transport"], call["about"]["from"], call["about"]["to"]) == ("sip", "+4930123", "agent")
    assert call["reason"] == "caller hung up"
    assert [turn["caller"] for turn in call["turns"]], "what was said is in the record"


async def test_keys_by_info_are_answered(sip: SipServer) -> None:
    await sipp(sip, "keys_by_info")
    await sip.server.idle()
    assert [turn["caller"] for turn in sip.last()["turns"]] == ["[keys: 42]"]


async def test_a_full_house_sends_the_next_caller_to_another_trunk_and_records_it(sip: SipServer) -> None:
    async with asyncio.TaskGroup() as callers:
        for number in range(4):
            callers.create_task(sipp(sip, "keys_by_info", "-s", f"agent{number}"))
        await eventually(lambda: sip.server.metric("halfsecond_calls_active") == 4)
        await sipp(sip, "refused")
        latest = sip.calls()["calls"][0]
        assert (latest["refused"], latest["reason"]) == (True, "at_capacity")
    await sip.server.idle()


async def test_calls_come_and_go_and_no_place_is_lost(sip: SipServer) -> None:
    for _ in range(3):
        await sipp(sip, "plain", "-m", "4", "-r", "20", "-l", "4")
    await sipp(sip, "cancel_late")
    await sip.server.idle()
    await sipp(sip, "plain", "-m", "4", "-r", "20", "-l", "4", "-t", "tn")
    await sip.server.idle()
