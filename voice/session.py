"""A call's settings: the operator's, overlaid by what its client asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from budget.errors import PeerError
from llm.prompt import SYSTEM_PROMPT
from transport.requests import SessionOptions, Tool, TurnDetection
from tts.speech import Voice
from vad.turn_end import EndpointRule

FILLER = "One moment."
APOLOGY = "Sorry, something went wrong. Could you say that again, please?"

_PATIENCE = {"low": 1.6, "medium": 1.0, "high": 0.5}
"""How much longer or shorter the waits of unsure ends are, by OpenAI's word for it."""


@dataclass(frozen=True)
class CallSettings:
    """Everything a call is run by (times in seconds)."""

    instructions: str = SYSTEM_PROMPT
    greeting: str = ""
    apology: str = APOLOGY
    filler: str = FILLER
    language: str = "en"
    voice: str = ""
    speed: float = 1.0
    temperature: float = 0.3
    max_tokens: int = 120
    audio: bool = True
    turn_detection: TurnDetection = field(default_factory=TurnDetection)
    endpoint: EndpointRule = field(default_factory=EndpointRule)
    prompt_tokens: int = 1600
    target: float = 0.8
    idle_timeout: float = 120.0
    max_duration: float = 3600.0
    tools: tuple[Tool, ...] = ()
    """Functions that the client offers to the model."""
    line_tools: tuple[str, ...] = ()
    """What the model may do with the line, by the names in `voice.line_tools`."""
    transfers: Mapping[str, str] = field(default_factory=dict)
    """To whom the model may hand a caller over: targets by name."""

    def changed(self, options: SessionOptions) -> "CallSettings":
        """With the options that were given; the rest stays."""
        given = {f.name: value for f in fields(options) if (value := getattr(options, f.name)) is not None}
        return replace(self, **given)

    def told(self, about: Mapping[str, str]) -> "CallSettings":
        """With what is known of the call in place of `{from}`, `{to}` and the like in the operator's texts."""
        instructions, greeting = self.instructions, self.greeting
        for name, value in about.items():
            instructions = instructions.replace(f"{{{name}}}", value)
            greeting = greeting.replace(f"{{{name}}}", value)
        return replace(self, instructions=instructions, greeting=greeting)

    @property
    def rule(self) -> EndpointRule:
        """When a turn is over: by the operator's rule, or as the client asked."""
        detection = self.turn_detection
        if detection.silence is not None:
            return self.endpoint.for_silence(detection.silence)
        return self.endpoint.with_patience(_PATIENCE[detection.eagerness])

    @property
    def sound(self) -> Voice:
        """How replies are spoken."""
        return Voice(self.voice, self.language, self.speed)

    def options(self) -> SessionOptions:
        """What is in force, as a client may read and set it."""
        return SessionOptions(**{f.name: getattr(self, f.name) for f in fields(SessionOptions)})


def check(options: SessionOptions, *, languages: frozenset[str], voices: tuple[str, ...]) -> None:
    """Raises `PeerError` if the options name what this service does not have."""
    if options.language is not None and options.language not in languages | {"auto"}:
        raise PeerError("invalid_value", f"unknown language {options.language!r}", param="language")
    if options.voice and options.voice not in voices:
        known = ", ".join(voices[:8]) + (", ..." if len(voices) > 8 else "")
        raise PeerError("invalid_value", f"unknown voice {options.voice!r}; this service has {known}", param="voice")
