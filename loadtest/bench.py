"""`make bench`: this machine's latency, accuracy and memory, measured from outside with real recordings.

Starts the service as a process of its own, speaks to it over Twilio Media Streams and OpenAI
Realtime at real time, and prints each figure beside its target. Nothing here knows the service's
code.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest import accuracy, latency, recordings, turns
from loadtest.browser import Browser
from loadtest.process import ServiceProcess, resident
from loadtest.recordings import RECORDINGS
from loadtest.statistics import percentile
from loadtest.telephone import Telephone


@dataclass(frozen=True)
class Figure:
    """One line of the result."""

    name: str
    target: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Bench:
    """What the measurements share."""

    service: ServiceProcess
    recordings: Path
    turns: int
    progress: Callable[[str], None]


async def measure_latency(bench: Bench) -> list[Figure]:
    """Voice-to-voice and answered turns: read sentences over OpenAI Realtime at 24 kHz, then over Twilio at 8 kHz."""
    clips = recordings.clips(
        bench.recordings, lambda m: m["language"] == "en" and m["text"] and 1.0 <= m["seconds"] <= 28
    )
    figures: list[Figure] = []
    for name, line, middle, high in (
        ("browser", Browser(bench.service.server), 350, 550),
        ("telephone", Telephone(bench.service.server), 420, 620),
    ):
        turns = await latency.conversation(line, clips, bench.turns or 2 * len(clips), bench.progress)
        figures += _voice_to_voice(name, turns, middle, high)
    return figures


def _voice_to_voice(name: str, turns: list[latency.Measured], middle: float, high: float) -> list[Figure]:
    answered = sorted((turn.milliseconds, turn.clip) for turn in turns if turn.milliseconds is not None)
    times = [milliseconds for milliseconds, _ in answered]
    silent = ", ".join(turn.clip for turn in turns if turn.milliseconds is None)
    late = ", ".join(f"{clip} {milliseconds:.0f}" for milliseconds, clip in reversed(answered[-5:]))
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    share = len(times) / len(turns)
    return [
        Figure(f"voice-to-voice p50, {name}", f"<= {middle} ms", f"{p50:.0f} ms (n = {len(times)})", p50 <= middle),
        Figure(f"voice-to-voice p95, {name}", f"<= {high} ms", f"{p95:.0f} ms (slowest: {late})", p95 <= high),
        Figure(f"answered turns, {name}, utterances of 1 s and more", "100%", f"{share:.1%} {silent}", share == 1.0),
    ]


async def measure_barge_in(bench: Bench) -> list[Figure]:
    """How long the agent still sounds once the caller speaks over it."""
    times = await latency.interruptions(bench.service.server, bench.recordings, 5, bench.progress)
    worst = max(times, default=float("inf"))
    middle = percentile(times, 0.5) if times else float("inf")
    text = f"p50 {middle:.0f} ms, worst {worst:.0f} ms (n = {len(times)})"
    return [Figure("agent audio stops after the caller starts", "<= 250 ms", text, worst <= 250)]


async def measure_turns(bench: Bench) -> list[Figure]:
    """Turns cut into, on pauses inside sentences; how long the decision takes; work done for nothing."""
    chosen = recordings.clips(bench.recordings, lambda m: m["language"] == "en" and m["text"])
    heard = await turns.listen(bench.service.server, turns.utterances(bench.recordings, chosen), bench.progress)
    cut = [pause for pause in heard if pause.cut]
    share = len(cut) / len(heard)
    names = ", ".join(f"{pause.name} {pause.length:.2f} s" for pause in cut)
    figures = [Figure("pauses cut into", "<= 5%", f"{share:.1%} of {len(heard)} ({names})", share <= 0.05)]
    for name, metric in (("LLM", "halfsecond_llm_deltas_total"), ("TTS", "halfsecond_tts_seconds_total")):
        dropped, used = (bench.service.metric(metric, f'use="{use}"') for use in ("dropped", "heard"))
        wasted = dropped / max(1e-9, dropped + used)
        figures.append(Figure(f"{name} work taken back unheard", "<= 35%", f"{wasted:.0%}", wasted <= 0.35))
    return figures


async def measure_words(bench: Bench) -> list[Figure]:
    """Utterances of one word: heard and answered, each once."""
    words = recordings.clips(bench.recordings, lambda m: m["file"].startswith("fsdd_"))
    answered = await latency.conversation(Telephone(bench.service.server), words, 2 * len(words), bench.progress)
    texts = [len(await accuracy.transcribe(bench.service.port, recordings.load(w.path, 24_000), "en")) for w in words]
    good = sum(turn.milliseconds is not None for turn in answered)
    text = f"{good} of {len(answered)} answered; turns heard of each: {texts}"
    met = good == len(answered) and all(n == 1 for n in texts)
    return [Figure("one-word utterances heard and answered once", "all", text, met)]


async def measure_accuracy(bench: Bench) -> list[Figure]:
    """Word and character error rates through the service's own turns."""
    english = recordings.clips(bench.recordings, lambda m: m["language"] == "en" and m["text"] and m["seconds"] <= 28)
    chinese = recordings.clips(bench.recordings, lambda m: m["language"] == "zh" and m["text"])
    words = await accuracy.error_rate(bench.service.port, english, "en", bench.progress)
    characters = await accuracy.error_rate(bench.service.port, chinese, "zh", bench.progress)
    figures = [
        Figure("word error rate, English up to 28 s", "<= 9%", f"{words:.1%} ({len(english)} clips)", words <= 0.09),
        Figure(
            "character error rate, Chinese", "<= 20%", f"{characters:.1%} ({len(chinese)} clips)", characters <= 0.2
        ),
    ]
    for clip in recordings.clips(bench.recordings, lambda m: m["language"] == "en" and m["text"] and m["seconds"] > 28):
        rate, seams = await accuracy.long_clip(bench.service.port, clip, bench.progress)
        text = f"WER {rate:.1%}; {seams or 'nothing twice, nothing lost'}"
        figures.append(Figure(f"long clip {clip.name}", "whole, no seams", text, not seams))
    return figures


async def measure_silence(bench: Bench) -> list[Figure]:
    """Text from noise."""
    noises = recordings.clips(bench.recordings, lambda m: m["text"] == "")
    said = await accuracy.invented(bench.service.port, noises, bench.progress)
    return [Figure("text from noise clips and 60 s of faint noise", "none", said or "none", not said)]


def measure_memory(bench: Bench) -> list[Figure]:
    """Resident memory of the service and its child processes."""
    total = resident(bench.service.pid)
    return [Figure("resident memory, all engines", "<= 1.3 GB", f"{total / 1e9:.2f} GB", total <= 1.3e9)]


async def run(options: argparse.Namespace, console: Console) -> list[Figure]:
    """Run the chosen measurements and print the table."""
    parts: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
        "latency": measure_latency,
        "turns": measure_turns,
        "words": measure_words,
        "barge-in": measure_barge_in,
        "accuracy": measure_accuracy,
        "silence": measure_silence,
    }
    with ServiceProcess(options.serve) as service, console.status("starting") as status:
        bench = Bench(service, options.recordings, options.turns, lambda text: status.update(text))
        ready = service.seconds_to_ready
        figures = [Figure("start to ready, models present", "<= 15 s", f"{ready:.1f} s", ready <= 15)]
        for name in options.only or parts:
            status.update(name)
            figures += await parts[name](bench)
        figures += measure_memory(bench)
    table = Table(title="halfsecond on this machine", title_justify="left")
    for column in ("figure", "target", "measured", ""):
        table.add_column(column)
    for figure in figures:
        table.add_row(figure.name, figure.target, figure.measured, "ok" if figure.met else "missed")
    console.print(table)
    return figures


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser("bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, help="folder with manifest.jsonl")
    parser.add_argument("--turns", type=int, default=0, help="turns of the latency call (default: each clip once)")
    parser.add_argument("--only", nargs="+", choices=["latency", "turns", "words", "barge-in", "accuracy", "silence"])
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="flags for `halfsecond serve`")
    options = parser.parse_args()
    figures = asyncio.run(run(options, Console(width=110)))
    if options.json:
        Path(options.json).write_text(json.dumps([vars(figure) for figure in figures], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
