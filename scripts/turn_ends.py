"""Pauses and ends of turns in the test recordings, judged by every detector: who cuts in how often, and how late it is.

    python scripts/turn_ends.py --rows rows.json --plot docs/turn-ends.svg

Takes every pause of 0.15 s and more in the recordings, pauses of 0.3-0.9 s put into sentences at
their quietest places, and the recordings' ends; plain and as a telephone brings them. At each the
sound is judged by smart-turn and the words, as Whisper hears them up to there, by the language
model. Then decisions are swept over thresholds and waits. A cut-in is agent audio of more than
0.2 s before the caller goes on, given that the first audio is ready 0.33 s after the last speech.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import soxr
from rich.progress import track

from asr.recognizer import DecodeRequest
from asr.whisper import WhisperRecognizer
from budget.scheduler import Scheduler
from llm.chat import ChatSession
from llm.llama import LlamaModel
from loadtest import recordings
from loadtest.latency import half_scale
from transport import g711
from vad.silero import SileroDetector, load_session
from vad.smart_turn import SmartTurn
from vad.speech import Pcm, SpeechStarted, SpeechTracker
from vad.turn_end import EndpointRule, Evidence
from vad.webrtc import GatedDetector, WebRtcDetector
from vad.wording import wording
from voice.catalogue import CATALOGUE
from voice.config import Settings

RATE = 16_000
DATA = Path(__file__).parent.parent / "tests" / "data"
READY, CUT = 0.33, 0.2


@dataclass(frozen=True)
class Row:
    """One pause (or end, then `pause` is infinite) and what was known at it."""

    clip: str
    language: str
    kind: str
    """natural, joined, between (of two sentences) or end"""
    telephone: bool
    pause: float
    sound: float
    sentence: float | None
    text: str


class Judges:
    """The detectors under study."""

    def __init__(self) -> None:
        models = Settings().models.directory
        self.turn = SmartTurn(CATALOGUE.file("smart-turn", models))
        self.whisper = WhisperRecognizer(CATALOGUE.folder("whisper-base", models), Scheduler("asr"))
        self.chat = LlamaModel(CATALOGUE.file("smollm2-135m", models), slots=1, context=1024, threads=1)
        session = self.chat.open()
        assert session is not None
        self.session: ChatSession = session
        self.vad = load_session()

    async def judge(self, pcm: Pcm, begin: float, stop: float, language: str) -> tuple[float, float | None, str]:
        """Sound, sentence and words of the turn from `begin`, at the pause after `stop` (seconds)."""
        heard = pcm[int(begin * RATE) : int((stop + 0.1) * RATE)]
        tail = heard[-12 * RATE :]
        text = self.whisper.decode_now(DecodeRequest(tail, language, len(tail) / RATE)).text
        sentence = await self.session.whole(text, urgent=True) if text else None
        return self.turn.probability(heard), sentence if language == "en" else None, text

    def gaps(self, pcm: Pcm) -> tuple[float | None, list[tuple[float, float]], float | None]:
        """Where speech begins, its pauses, and where it ends."""
        tracker = SpeechTracker(GatedDetector(WebRtcDetector(), SileroDetector(self.vad)))
        first, stop, found = None, None, []
        for event in tracker.push(pcm):
            if not isinstance(event, SpeechStarted):
                stop = event.at
                continue
            first = event.at if first is None else first
            if stop is not None:
                found.append((stop, event.at))
        return first, found, stop


def load(path: Path, *, telephone: bool) -> Pcm:
    """A recording at half scale with 0.5 s of line noise before and 2 s behind it."""
    mono = half_scale(recordings.load(path, RATE))
    noise = np.random.default_rng(3).normal(0, 3e-4, len(mono) + 40_000).astype(np.float32)
    noise[8000 : 8000 + len(mono)] += mono
    if telephone:
        narrow = g711.decode(g711.encode(soxr.resample(noise, RATE, 8000), "mu"), "mu")
        noise = soxr.resample(narrow, 8000, RATE)
    return np.asarray(noise, np.float32)


async def rows(judges: Judges, clip: dict[str, object], ends: list[float], *, telephone: bool) -> list[Row]:
    """All pauses and the end of one recording."""
    name, language = str(clip["file"]).removesuffix(".flac"), str(clip["language"])
    pcm = load(DATA / "speech" / str(clip["file"]), telephone=telephone)
    first, pauses, last = judges.gaps(pcm)
    if first is None or last is None:
        return []
    boundaries = [end + 0.5 for end in ends]
    begin, made = max(0.0, first - 0.2), []

    async def add(kind: str, audio: Pcm, start: float, stop: float, pause: float) -> None:
        judged = await judges.judge(audio, start, stop, language)
        made.append(Row(name, language, kind, telephone, pause, *judged))

    for stop, start in pauses:
        if start - stop >= 0.15:
            await add("between" if near(stop, boundaries) else "natural", pcm, begin, stop, start - stop)
    if float(str(clip["seconds"])) < 28:
        await add("end", pcm, begin, last, float("inf"))
    for audio, place in joined(pcm, first, last, pauses, boundaries):
        heard_first, heard, _ = judges.gaps(audio)
        pause = next(((stop, start) for stop, start in heard if stop - 0.1 < place < start), None)
        if pause is not None and heard_first is not None:
            await add("joined", audio, max(0.0, heard_first - 0.2), pause[0], pause[1] - pause[0])
    return made


def near(time: float, ends: list[float]) -> bool:
    """Whether a sentence ends at about that time."""
    return any(abs(time - end) < 0.6 for end in ends)


def joined(
    pcm: Pcm, first: float, last: float, pauses: list[tuple[float, float]], ends: list[float]
) -> Iterator[tuple[Pcm, float]]:
    """The recording with a pause put into a sentence, at several places and of several lengths; and the place."""
    length = last - first
    if length < 2.0:
        return
    places = 1 if length < 3 else 2 if length < 4 else 3 if length < 12 else 8
    for i in range(places):
        middle = first + length * (i + 1) / (places + 1)
        near_by = [t for t in np.arange(middle - 0.45, middle + 0.45, 0.01) if not near(t, ends)]
        if not near_by:
            continue
        place = min(near_by, key=lambda t: float(np.mean(pcm[int((t - 0.03) * RATE) : int((t + 0.03) * RATE)] ** 2)))
        have = next((start - stop for stop, start in pauses if stop - 0.02 < place < start + 0.02), 0.0)
        for total in lengths(i):
            if total >= have + 0.1:
                line = np.random.default_rng(5).normal(0, 3e-4, int((total - have) * RATE)).astype(np.float32)
                cut = int(place * RATE)
                yield np.concatenate([pcm[:cut], line, pcm[cut:]]), place


def lengths(place: int) -> list[float]:
    """Three pauses, one in each third of 0.3-0.9 s, elsewhere in it for each place: all lengths are as likely."""
    return [0.3 + 0.2 * (third + (0.5 + 0.618 * place) % 1) for third in range(3)]


def cut_share(found: list[Row], wait: Callable[[Row], float]) -> float:
    """Share of the pauses inside sentences that are cut into."""
    inner = [row for row in found if row.kind in ("natural", "joined")]
    return float(np.mean([max(wait(row), READY) + CUT < row.pause for row in inner]))


def decisions(found: list[Row], wait: Callable[[Row], float]) -> tuple[float, float]:
    """Median and mean seconds from the last speech to the decision, at the ends of turns."""
    waits = [wait(row) for row in found if row.kind == "end"]
    return float(np.median(waits)), float(np.mean(waits))


def evidence(row: Row) -> Evidence:
    """What the service knows at that pause."""
    return Evidence(row.sound, row.sentence, wording(row.text), judged=True)


def fixed(delay: float) -> Callable[[Row], float]:
    """Wait so long, whatever was said."""
    return lambda row: delay


def threshold(sure: float, delay: float) -> Callable[[Row], float]:
    """0.2 s where smart-turn is sure, else `delay`."""
    return lambda row: 0.2 if row.sound >= sure else delay


def by_rule(rule: EndpointRule) -> Callable[[Row], float]:
    """As the service waits, for a caller it knows nothing of."""
    return lambda row: rule.wait_for(evidence(row))


def sweeps(found: list[Row]) -> dict[str, list[tuple[float, float, float]]]:
    """For each detector its best points: median decision, mean decision, share cut into."""
    policies: dict[str, list[Callable[[Row], float]]] = {
        "VAD only": [fixed(d) for d in np.arange(0.2, 1.65, 0.05)],
        "smart-turn alone": [
            threshold(t, d) for t in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98) for d in (0.5, 0.75, 1.0, 1.4)
        ],
        "halfsecond": [
            by_rule(replace(EndpointRule(), sure_from=s).with_patience(f))
            for s in np.arange(-0.5, 3.1, 0.25)
            for f in (0.5, 0.75, 1.0, 1.3)
        ],
    }
    return {
        name: sorted({(*decisions(found, wait), cut_share(found, wait)) for wait in waits}, key=lambda point: point[1])
        for name, waits in policies.items()
    }


def envelope(points: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """The lowest share for each mean decision: what this detector can do at best."""
    best: list[tuple[float, float]] = []
    for _, mean, share in points:
        if not best or share < best[-1][1]:
            best.append((mean, share))
    return best


COLOURS = {"VAD only": "#999999", "smart-turn alone": "#d95f02", "halfsecond": "#1b6ca8"}


def plot(curves: dict[str, list[tuple[float, float]]]) -> str:
    """The curves as SVG: mean decision (s) across, share of pauses cut into (%) up."""
    wide, high, most = 640, 400, max(share for curve in curves.values() for _, share in curve)

    def at(mean: float, share: float) -> str:
        return f"{60 + (mean - 0.2) / 1.4 * (wide - 80):.1f},{high - 50 - share / most * (high - 80):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif">']
    parts.append(f'<rect width="{wide}" height="{high}" fill="white"/>')
    for share in np.arange(0, most, 0.1):
        x, y = at(0.2, share).split(",")
        parts.append(f'<path d="M{x} {y}H{wide - 20}" stroke="#ddd"/>')
        parts.append(f'<text x="52" y="{y}" font-size="12" text-anchor="end">{share:.0%}</text>')
    for mean in np.arange(0.2, 1.65, 0.2):
        x = at(mean, 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{high - 32}" font-size="12" text-anchor="middle">{mean:.1f} s</text>')
    for i, (name, curve) in enumerate(curves.items()):
        line = " ".join(at(*point) for point in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>')
        parts.append(f'<text x="{wide - 180}" y="{40 + 18 * i}" fill="{COLOURS[name]}" font-size="14">{name}</text>')
    label = "mean time from the last speech to the decision; upwards: pauses inside sentences cut into"
    parts.append(f'<text x="60" y="{high - 10}" font-size="12">{label}</text></svg>')
    return "\n".join(parts) + "\n"


def report(found: list[Row]) -> None:
    """Print what each detector does, and the service's own rule."""
    inner = sum(row.kind in ("natural", "joined") for row in found)
    print(f"{inner} pauses inside sentences, {sum(row.kind == 'end' for row in found)} ends of turns")
    for name, points in sweeps(found).items():
        print(name)
        for mean, share in envelope(points):
            print(f"   mean decision {mean:.2f} s: {share:.1%} cut into")
    rule = by_rule(EndpointRule())
    median, mean = decisions(found, rule)
    share = cut_share(found, rule)
    print(f"the service's rule: median {median:.2f} s, mean {mean:.2f} s, {share:.1%} cut into")


async def collect() -> list[Row]:
    """Judge everything; some ten minutes on two cores."""
    ends = json.loads((DATA / "pauses.json").read_text())["sentence_ends"]
    clips = [json.loads(line) for line in (DATA / "speech" / "manifest.jsonl").read_text().splitlines()]
    chosen = [clip for clip in clips if clip["language"] in ("en", "zh") and clip["text"] != ""]
    judges, found = Judges(), []
    for clip in track(chosen, "judging"):
        for telephone in (False, True):
            name = str(clip["file"]).removesuffix(".flac")
            found += await rows(judges, clip, ends.get(name, []), telephone=telephone)
    judges.whisper.close()
    await judges.session.close()
    await judges.chat.close()
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="JSON file with the judgements; made if missing")
    parser.add_argument("--plot", type=Path, help="SVG file to write")
    options = parser.parse_args()
    if not options.rows.exists():
        found = asyncio.run(collect())
        options.rows.write_text(json.dumps([asdict(row) for row in found], ensure_ascii=False, indent=0))
    found = [Row(**row) for row in json.loads(options.rows.read_text())]
    english = [row for row in found if row.language == "en"]
    for telephone in (False, True):
        print("\non the telephone" if telephone else "\nplain")
        report([row for row in english if row.telephone is telephone])
    if options.plot:
        curves = {name: envelope(points) for name, points in sweeps(english).items()}
        options.plot.write_text(plot(curves))


if __name__ == "__main__":
    main()
