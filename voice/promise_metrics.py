"""The metrics of admission and the governor."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, Histogram

_SLACK = (-2.0, -1.0, -0.5, -0.2, -0.1, 0.0, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5)


class PromiseMetrics:
    """Part of the process's `Observer`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.on_answer: Callable[[float, float | None, float], None] = lambda slack, took, at: None
        """Told of each answer's slack and how long its first sound took (seconds), and when it was heard (loop)."""
        self.level = 0
        """Steps that the governor has taken down its ladder."""
        self._slack = Histogram(
            "halfsecond_slack_seconds",
            "What was left of the target when an answer was first heard; negative: late. Chosen waits don't count.",
            buckets=_SLACK,
            registry=registry,
        )
        self._active = Gauge("halfsecond_calls_active", "Calls in progress.", registry=registry)
        self._admissible = Gauge(
            "halfsecond_calls_admissible", "More calls that would be admitted now.", registry=registry
        )
        self._limit = Gauge("halfsecond_calls_limit", "Calls at most.", registry=registry)
        self._level = Gauge("halfsecond_governor_level", "Steps down the governor's ladder.", registry=registry)
        self._activity = Gauge(
            "halfsecond_activity_share",
            "Share of a call its caller talks, by profile: likeliest, and exceeded one time in twenty.",
            ["profile", "estimate"],
            registry=registry,
        )
        self._promised = Gauge("halfsecond_memory_promised_bytes", "Memory reserved.", ["device"], registry=registry)
        self._taken = Gauge("halfsecond_memory_taken_bytes", "Memory held.", ["device"], registry=registry)
        self._over = Gauge("halfsecond_memory_over", "1 while more memory is held than reserved.", registry=registry)

    def activity(self, profile: str, mean: float, careful: float) -> None:
        """The share of their calls that callers of a profile talk: likeliest, and exceeded one time in twenty."""
        self._activity.labels(profile, "mean").set(mean)
        self._activity.labels(profile, "careful").set(careful)

    def audible(self, slack: float, took: float | None, at: float) -> None:
        """An answer was first heard at loop time `at`; its first sound `took` so long from the model's start."""
        self._slack.observe(slack)
        self.on_answer(slack, took, at)

    def places(self, active: int, admissible: int, limit: int) -> None:
        """Calls in progress, more that would be admitted, and at most."""
        self._active.set(active)
        self._admissible.set(admissible)
        self._limit.set(limit)

    def governed(self, level: int) -> None:
        """The governor is so many steps down."""
        self.level = level
        self._level.set(level)

    def memory(self, device: str, taken: int | None, promised: int) -> None:
        """What the processes hold on a device, if that can be told, and what was reserved (bytes)."""
        self._promised.labels(device).set(promised)
        if taken is not None:
            self._taken.labels(device).set(taken)

    def memory_kept(self, kept: bool) -> None:
        """Whether nothing holds more than it reserved."""
        self._over.set(not kept)
