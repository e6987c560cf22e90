"""Counters of the server, exposed as Prometheus metrics."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.protocol import Stats

FIRST_TOKEN: tuple[float, ...] = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75)
FIRST_TOKEN += (1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
BETWEEN: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
BETWEEN += (1, 2.5, 5, 7.5, 10, 20, 40, 80)
WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920)
OLD = 0.1  # how much the newest answer moves the mean


@dataclass
class TimeHistogram:
    """How often times were at most each of `bounds`, in seconds; the last count is of all."""

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, seconds: float, times: int = 1) -> None:
        """One more, or several equal ones."""
        self.total += seconds * times
        for i, bound in enumerate(self.bounds):
            if seconds <= bound:
                self.counts[i] += times
        self.counts[-1] += times

    def lines(self, name: str) -> Iterator[str]:
        """In Prometheus' text format."""
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {self.counts[-1]}"


@dataclass
class ServedCounts:
    """Sums since the server began. `requests` of answers by how they ended: a finish reason,
    `error`, or `gone` where nobody waited for the end.
    """

    prompt: int = 0
    cached: int = 0
    prompt_s: float = 0.0
    predicted: int = 0
    predicted_s: float = 0.0
    drafted: int = 0
    accepted: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    restarts: int = 0
    busy_s: float = 0.0
    slot_s: float = 0.0
    seconds_an_answer: float = 1.0
    first_token: TimeHistogram = field(default_factory=lambda: TimeHistogram(FIRST_TOKEN))
    between: TimeHistogram = field(default_factory=lambda: TimeHistogram(BETWEEN))
    whole: TimeHistogram = field(default_factory=lambda: TimeHistogram(WHOLE))

    def made(self, stats: Stats) -> None:
        """Count the engine's work for an answer, even if the client disconnected early."""
        self.prompt += stats.n_prompt - stats.n_cached
        self.cached += stats.n_cached
        self.prompt_s += stats.prefill_s
        self.predicted += stats.n_generated
        self.predicted_s += stats.decode_s
        self.drafted += stats.n_drafted
        self.accepted += stats.n_accepted

    def finished(self, reason: str, seconds: float) -> None:
        """An answer was sent to its end, so many seconds after its request."""
        self.whole.add(seconds)
        self.seconds_an_answer += OLD * (seconds - self.seconds_an_answer)
        self.ended(reason)

    def ended(self, reason: str) -> None:
        """A request for an answer is over."""
        self.requests[reason] = self.requests.get(reason, 0) + 1

    def worked(self, slots: int, seconds: float) -> None:
        """So many slots had a request for so long."""
        if slots:
            self.busy_s += seconds
            self.slot_s += slots * seconds

    def turned_away(self, status: int) -> None:
        """A request was answered with an error."""
        self.refused[status] = self.refused.get(status, 0) + 1

    def text(self, processing: int, deferred: int, usage: float | None) -> str:
        """All of it in Prometheus' text format; `usage` is the share of cells in use."""
        lines: list[str] = []
        # A step makes a token for each busy slot; the number of steps is unknown.
        busy = self.slot_s / self.busy_s if self.busy_s else 0.0
        steps = round(self.predicted / busy) if busy else 0
        for prefix in ("cutaway", "llamacpp"):
            for name, value in (
                ("prompt_tokens_total", self.prompt),
                ("prompt_tokens_cached_total", self.cached),
                ("prompt_seconds_total", round(self.prompt_s, 6)),
                ("tokens_predicted_total", self.predicted),
                ("tokens_predicted_seconds_total", round(self.predicted_s, 6)),
                ("n_decode_total", steps),
                ("draft_tokens_total", self.drafted),
                ("draft_tokens_accepted_total", self.accepted),
            ):
                lines += [f"# TYPE {prefix}:{name} counter", f"{prefix}:{name} {value}"]
            for name, value in (
                ("requests_processing", processing),
                ("requests_deferred", deferred),
                ("n_busy_slots_per_decode", round(busy, 3)),
            ):
                lines += [f"# TYPE {prefix}:{name} gauge", f"{prefix}:{name} {value}"]
        lines += self._own(usage)
        return "\n".join([*lines, ""])

    def _own(self, usage: float | None) -> Iterator[str]:
        for name, rows in (
            ("requests_total", [(f'reason="{r}"', n) for r, n in sorted(self.requests.items())]),
            ("refused_total", [(f'status="{s}"', n) for s, n in sorted(self.refused.items())]),
            ("engine_restarts_total", [("", self.restarts)]),
        ):
            yield f"# TYPE cutaway:{name} counter"
            yield from (
                f"cutaway:{name}{{{label}}} {n}" if label else f"cutaway:{name} {n}"
                for label, n in rows
            )
        if usage is not None:
            yield "# TYPE cutaway:kv_cache_usage_perc gauge"
            yield f"cutaway:kv_cache_usage_perc {usage:.6f}"
        for name, histogram in (
            ("time_to_first_token_seconds", self.first_token),
            ("inter_token_latency_seconds", self.between),
            ("e2e_request_latency_seconds", self.whole),
        ):
            yield f"# TYPE cutaway:{name} histogram"
            yield from histogram.lines(f"cutaway:{name}")
