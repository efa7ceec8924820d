"""When a turn is over: the evidence at a pause, how this caller pauses, and the rule that weighs them.

At a pause three things are asked: does it sound complete (smart-turn), do the words make a whole
sentence (the language model, `llm/sentence_end`), how do they end (`vad/wording`). One score says how
sure the end is; the score says how long the silence must be. What was measured is in `docs/turns.md`,
made by `scripts/turn_ends.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

from vad.speech import Pcm
from vad.wording import Wording


@dataclass(frozen=True)
class Endpoint:
    """The end of a turn: last speech at `speech_end`, decided at `decided_at` (media seconds).

    `score` of the evidence, where there was any.
    """

    speech_end: float
    decided_at: float
    score: float | None = None


class TurnEndModel(Protocol):
    """Judges from the sound whether the caller is done."""

    def probability(self, pcm: Pcm) -> float:
        """Probability that the turn is complete; `pcm` is its last 8 s at most, 16 kHz, with the silence so far."""
        ...


@dataclass(frozen=True)
class Evidence:
    """What is known of one pause; None: not known, or not yet.

    `sound` and `sentence` are probabilities that the turn, or its sentence, is complete.
    `judged` is True once nothing more will come.
    """

    sound: float | None = None
    sentence: float | None = None
    wording: Wording | None = None
    judged: bool = False

    def score(self) -> float | None:
        """Log-odds, up to a constant, that the turn is over; None without any judgement of the sound.

        The weights were fitted by logistic regression to the pauses and ends of the recordings, each
        recording judged by a fit to the others: area under the curve 0.94 (sound alone 0.87, words 0.85),
        on the telephone 0.91 (0.75, 0.86).
        """
        if self.sound is None:
            return None
        sound = _log_odds(self.sound)
        if self.sentence is None:
            return 0.65 * sound + {Wording.OPEN: -2.5, Wording.CLOSED: 1.0}.get(self.wording or Wording.NEUTRAL, 0.0)
        listed = {Wording.CLOSED: 2.5, Wording.OPEN: -2.0}.get(self.wording or Wording.NEUTRAL, 0.0)
        return 0.40 * sound + 1.58 * math.log(self.sentence + 0.02) + 3.17 + listed


def _log_odds(probability: float) -> float:
    bounded = min(0.995, max(0.005, probability))
    return math.log(bounded / (1 - bounded))


@dataclass(frozen=True)
class Habit:
    """How often this caller goes on after what looked like the end: so many `hesitations`, so many `turns` that ended.

    Pauses in the middle of a sentence, where everybody pauses, tell nothing and aren't counted.
    """

    hesitations: float = 0.0
    turns: float = 0.0

    def hesitated(self) -> "Habit":
        """The caller went on after what looked like the end."""
        return Habit(self.hesitations * _FADES + 1, self.turns * _FADES)

    def finished(self) -> "Habit":
        """A turn ended where it was taken to end."""
        return Habit(self.hesitations * _FADES, self.turns * _FADES + 1)

    @property
    def share(self) -> float:
        """Share of this caller's seeming ends after which more comes, from what is usual and what was seen."""
        return (self.hesitations + _PRIOR * _USUAL) / (self.hesitations + self.turns + _PRIOR)

    @property
    def patience(self) -> float:
        """From 0 (never pauses inside a turn) to 1: how far the waits of unsure ends go towards their longest."""
        return min(1.0, self.share / _USUAL)

    @property
    def odds(self) -> float:
        """What it adds to the log-odds of any end that this caller pauses less, or more, than is usual (Bayes)."""
        return min(2.0, max(-0.5, _log_odds(_USUAL) - _log_odds(self.share)))


_FADES = 0.9
"""What is left of a caller's earlier pauses at each new one: some ten count."""
_USUAL = 0.25
"""Share of seeming ends after which a caller goes on that is taken for usual; before the first turn all are."""
_PRIOR = 2.0


@dataclass(frozen=True)
class EndpointRule:
    """How long a silence must be (seconds) before the turn is over.

    `silence` where there is no evidence at all, or none is wanted (`by_meaning` False). With evidence:
    `shortest` for a sure end; from two thirds of `longest` to all of it for a turn that surely goes on;
    for what lies between `unsure`, less for a caller who does not pause inside a turn.
    """

    silence: float = 0.5
    by_meaning: bool = True
    shortest: float = 0.2
    unsure: float = 0.68
    longest: float = 2.2
    sure_from: float = 1.1
    open_below: float = -1.75
    hopeless_below: float = -4.0

    def wait_for(self, evidence: Evidence, habit: Habit | None = None) -> float:
        """Seconds of silence to wait for."""
        score = evidence.score() if self.by_meaning else None
        if score is None:
            return self.silence
        habit = habit or Habit()
        score += habit.odds
        unsure = self._unsure(habit.patience)
        if not evidence.judged:
            return max(unsure, self.silence)
        if self._goes_on(evidence, score):
            return max(unsure, self._open(score))
        return min(self.shortest, unsure) if score >= self.sure_from else unsure

    def decide(self, speech_end: float, now: float, evidence: Evidence, habit: Habit | None = None) -> Endpoint | None:
        """The endpoint, once `now` (media time) is late enough after `speech_end`."""
        if now - speech_end < self.wait_for(evidence, habit) - 1e-9:
            return None
        return Endpoint(speech_end, now, evidence.score())

    def seems_over(self, evidence: Evidence) -> bool:
        """Whether the turn might be over, by what was said alone."""
        score = evidence.score()
        return score is not None and not self._goes_on(evidence, score)

    def for_silence(self, silence: float) -> "EndpointRule":
        """The rule of a client that asked for a fixed silence."""
        return replace(self, silence=silence, by_meaning=False)

    def with_patience(self, factor: float) -> "EndpointRule":
        """The rule with the waits of unsure and open ends longer or shorter by this factor."""
        return replace(self, unsure=self.unsure * factor, longest=self.longest * factor)

    def _goes_on(self, evidence: Evidence, score: float) -> bool:
        return evidence.wording is Wording.COUNTING or score < self.open_below

    def _open(self, score: float) -> float:
        """The wait of a turn that goes on: the surer that is, the longer."""
        depth = (self.open_below - score) / (self.open_below - self.hopeless_below)
        return self.longest * (2 + min(1.0, max(0.0, depth))) / 3

    def _unsure(self, patience: float) -> float:
        """The wait of an unsure end: much nearer to `shortest` for a caller who never pauses inside a turn."""
        least = self.shortest + 0.4 * (self.unsure - self.shortest)
        return least + (self.unsure - least) * patience
