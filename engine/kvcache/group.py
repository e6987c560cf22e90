"""Several caches that see the same tokens: a model with full and windowed layers."""

from collections.abc import Sequence

from engine.kvcache.causal import CacheStep, CausalCache, Ints


class CacheGroup:
    """Fans every call out to its caches and keeps them consistent."""

    def __init__(self, caches: Sequence[CausalCache]) -> None:
        self.caches = tuple(caches)

    def start(self, positions: Ints, sequence: int, ends: Ints | None = None) -> list[CacheStep]:
        """Start a step in every cache; if one fails, all forget it. Raises `ContextFull`."""
        try:
            return [cache.start(positions, sequence, ends) for cache in self.caches]
        except BaseException:
            self.remove(sequence, int(positions[0]))
            raise

    def remove(self, sequence: int, begin: int, end: int | None = None) -> list[Ints | None]:
        """`CausalCache.remove` in every cache; if one fails, all forget the sequence."""
        try:
            return [cache.remove(sequence, begin, end) for cache in self.caches]
        except BaseException:
            for cache in self.caches:
                cache.remove(sequence, 0)
            raise

    def can_resume(self, sequence: int, position: int) -> bool:
        """Whether every cache still holds what a token at `position` sees."""
        return all(cache.can_resume(sequence, position) for cache in self.caches)

    def clear(self) -> None:
        """Forget everything."""
        for cache in self.caches:
            cache.clear()
