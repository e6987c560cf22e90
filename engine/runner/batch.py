"""Sizes of steps: those that plans are made for, and the most that ends within seconds."""

from collections.abc import Callable, Iterator, Sequence

MAX_BATCH = 512
PATIENT = 5.0
"""Seconds that a step may take that only reads: a prompt is stopped between two steps, and its
progress shown.
"""
FIRST = 32
"""Tokens of the first step of a model that may be slow, and of later ones at least."""
READ_BY_SLOW = 125e9
"""Bytes of weights times tokens that a slow processor computes in PATIENT seconds: 8B in Q4_K_M at
5 tokens a second, on two cores with AVX2 in halves.
"""


def bucket_of(n: int) -> int:
    """The size a plan is made for: 1, 2, 3, 4, 6, 8, 12, ... so that a third at most is padding."""
    power = 1 << max(0, n - 1).bit_length()
    return power // 4 * 3 if power >= 4 and n <= power // 4 * 3 else power


def full_bucket(n: int) -> int:
    """The largest size of a plan that n tokens fill."""
    return next((size for size in range(n, 0, -1) if bucket_of(size) == size), 1)


def pieces_of(
    tokens: Sequence[int], most: Callable[[], int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the parts of a text, each with its start, of as many tokens as `most` returns then."""
    start = 0
    while start < len(tokens):
        part = tokens[start : start + most()]
        yield start, part
        start += len(part)


class Patience:
    """Learns from steps how many tokens, `most`, one may have that only reads."""

    def __init__(self, n_bytes: int, on_cpu: bool) -> None:
        """`n_bytes` are those of the weights."""
        may_be_slow = on_cpu and n_bytes * MAX_BATCH > READ_BY_SLOW
        self.most = FIRST if may_be_slow else MAX_BATCH

    def took(self, n_tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long."""
        if n_tokens >= self.most or seconds > PATIENT:
            fitting = min(MAX_BATCH, round(n_tokens * PATIENT / seconds))
            self.most = full_bucket(max(FIRST, fitting))
