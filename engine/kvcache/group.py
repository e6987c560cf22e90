"""Several caches that see the same tokens: a model with full and windowed layers."""

from collections.abc import Sequence

from engine.errors import CutawayError
from engine.kvcache.causal import CacheStep, CausalCache, Ints


class CacheGroup:
    """Fans every call out to its caches and keeps them consistent."""

    def __init__(self, caches: Sequence[CausalCache]) -> None:
        self.caches = tuple(caches)

    def start(self, positions: Ints, sequence: int) -> list[CacheStep]:
        """A step in every cache; when one is full, the others forget the step again."""
        steps: list[CacheStep] = []
        try:
            for cache in self.caches:
                steps.append(cache.start(positions, sequence))
        except CutawayError:
            for cache, _ in zip(self.caches, steps, strict=False):
                cache.remove(sequence, int(positions[0]))
            raise
        return steps

    def remove(self, sequence: int, begin: int, end: int | None = None) -> list[Ints | None]:
        """`CausalCache.remove` in every cache."""
        return [cache.remove(sequence, begin, end) for cache in self.caches]

    def can_resume(self, sequence: int, position: int) -> bool:
        """Whether every cache still holds what a token at `position` sees."""
        return all(cache.can_resume(sequence, position) for cache in self.caches)

    def clear(self) -> None:
        """Forget everything."""
        for cache in self.caches:
            cache.clear()
