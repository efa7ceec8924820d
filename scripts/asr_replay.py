"""Recordings replayed as if live, on a virtual clock: words, their delay and their cost, beside one decode with 30 s.

    python -m scripts.asr_replay

Frames arrive every 20 ms of virtual time; a decode takes as much virtual time as it took CPU time.
So delays are exact and don't depend on what else the machine does. The clip's last 20 ms above
-28 dB of its peak is its last speech.
"""

# isort: off
import voice  # noqa: F401 - first: it settles how the runtimes use threads

# isort: on
import argparse
import asyncio
from dataclasses import dataclass
from time import process_time

import jiwer
import numpy as np
from rich.progress import track

import asr.whisper
from asr.recognizer import DecodeRequest
from asr.transcript import Transcript
from asr.whisper import ContextRule, WhisperRecognizer
from budget.scheduler import Scheduler
from budget.work import Urgency
from loadtest.accuracy import normal
from loadtest.latency import half_scale, speech_span
from loadtest.recordings import RECORDINGS, Clip, clips, load
from loadtest.statistics import percentile
from tests.virtual_time import VirtualTimeLoop
from transport.frame import FRAME_SECONDS, AudioFrame
from vad.silero import SileroDetector, load_session
from vad.speech import Pcm
from vad.turn_end import EndpointRule
from vad.webrtc import GatedDetector, WebRtcDetector
from voice.catalogue import CATALOGUE
from voice.config import Settings
from voice.hearing import Decoded, Hearing
from voice.pause import SoundJudged
from voice.turn_taking import CallerFellSilent, CallerSpoke, TurnOver

RATE, FRAME = 16_000, 320


class Timed:
    """The recogniser on the virtual clock, `workers` decodes at once."""

    def __init__(self, whisper: WhisperRecognizer, workers: int) -> None:
        self._whisper, self._free = whisper, asyncio.Semaphore(workers)
        self.spent = 0.0

    def spare(self, own: int) -> bool:
        """See `Recognizer`: nobody else is there, so what is under way is this call's own."""
        return not self._free.locked()

    async def decode(self, request: DecodeRequest, urgency: Urgency, *, deadline: float = 0.0) -> Transcript:
        """See `Recognizer`."""
        async with self._free:
            began = process_time()
            transcript = self._whisper.decode_now(request)
            took = process_time() - began
            self.spent += took
            await asyncio.sleep(took)
            return transcript


@dataclass(frozen=True)
class Replayed:
    """One clip: its words, when they were final after its last speech, and the CPU time they cost (seconds)."""

    text: str
    delay: float
    spent: float


async def replay(pcm: Pcm, whisper: WhisperRecognizer, detector: GatedDetector, language: str) -> Replayed:
    """Speak the clip into `Hearing`; silence of 0.8 s ends a turn."""
    loop = asyncio.get_running_loop()
    results: list[Decoded] = []
    texts: list[str] = []
    timed = Timed(whisper, 2)
    last = speech_span(pcm)[1] / RATE + 0.5
    line = np.random.default_rng(0).normal(0, 3e-4, len(pcm) + 3 * RATE).astype(np.float32)
    line[RATE // 2 : RATE // 2 + len(pcm)] += pcm
    final, pending = 0.0, False

    def post(result: Decoded | SoundJudged) -> None:
        if isinstance(result, Decoded):
            results.append(result)

    async with asyncio.TaskGroup() as tasks:
        rule = EndpointRule(0.8, by_meaning=False)
        hearing = Hearing(detector, timed, judge=None, rule=rule, language=language, tasks=tasks, post=post)
        began = loop.time()
        for i in range(len(line) // FRAME):
            time = i * FRAME_SECONDS
            await asyncio.sleep(max(0.0, began + time + FRAME_SECONDS - loop.time()))
            for event in hearing.push(AudioFrame(line[i * FRAME : (i + 1) * FRAME], time)):
                if isinstance(event, CallerSpoke):
                    hearing.begin(event.at) if not pending else hearing.resume(event.at)
                    pending = True
                elif isinstance(event, CallerFellSilent) and hearing.recognise(event.speech_end):
                    final = loop.time() - began
                elif isinstance(event, TurnOver):
                    texts.append(hearing.heard().text)
                    hearing.close()
                    pending = False
            hearing.partial()
            while results:
                result = results.pop(0)
                if hearing.complete(result) and result.job.final:
                    final = loop.time() - began
    return Replayed(" ".join(texts), final - last, timed.spent)


def whole(pcm: Pcm, whisper: WhisperRecognizer) -> Replayed:
    """One decode of the whole clip with the context that is in force."""
    began = process_time()
    text = whisper.decode_now(DecodeRequest(pcm, "en", len(pcm) / RATE)).text
    return Replayed(text, 0.0, process_time() - began)


def report(name: str, chosen: list[Clip], found: list[Replayed]) -> None:
    """One line of the result."""
    rate = jiwer.wer([normal(c.text) for c in chosen], [normal(f.text) for f in found])
    cost = sum(f.spent for f in found) / sum(c.seconds for c in chosen)
    delays = sorted(f.delay for f in found)
    line = f"{name:34} WER {rate:.1%}   CPU {cost * 1000:.0f} ms a second of speech"
    if any(delays):
        line += f"   final after p50 {percentile(delays, 0.5) * 1000:.0f}, p95 {percentile(delays, 0.95) * 1000:.0f} ms"
    print(line)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=28, help="longest clip")
    options = parser.parse_args()
    chosen = clips(RECORDINGS, lambda m: m["language"] == "en" and m["text"] and m["seconds"] <= options.seconds)
    folder = CATALOGUE.folder("whisper-base", Settings().models.directory)
    whisper = WhisperRecognizer(folder, Scheduler("asr"), threads=1)
    audio = [half_scale(load(clip.path, RATE)) for clip in chosen]
    session = load_session()
    short = [whole(pcm, whisper) for pcm in track(audio, "one decode, short context")]
    live = []
    for pcm in track(audio, "live"):
        loop = VirtualTimeLoop()
        detector = GatedDetector(WebRtcDetector(), SileroDetector(session))
        live.append(loop.run_until_complete(replay(pcm, whisper, detector, "en")))
        loop.close()
    usual, asr.whisper.CONTEXT = asr.whisper.CONTEXT, ContextRule(floor=30.0, room=0.0)
    long = [whole(pcm, whisper) for pcm in track(audio, "one decode, 30 s of context")]
    asr.whisper.CONTEXT = usual
    report("one decode, 30 s of context", chosen, long)
    report("one decode, short context", chosen, short)
    report("live: partial, early and final", chosen, live)
    whisper.close()


if __name__ == "__main__":
    main()
