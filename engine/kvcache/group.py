"""Several caches that see the same tokens: a model with full and windowed layers."""

from collections.abc import Sequence

from engine.kvcache.causal import CacheStep, CausalCache, Ints
from engine.kvcache.encoded import EncodedCache


class CacheGroup:
    """Fans every call out to its caches and keeps them consistent.

    `encoded` has the rows of pictures where a model keeps them, of the sequence 0.
    """

    def __init__(self, caches: Sequence[CausalCache], encoded: EncodedCache | None = None) -> None:
        self.caches = tuple(caches)
        self.encoded = encoded

    def start(self, positions: Ints, sequence: int, ends: Ints | None = None) -> list[CacheStep]:
        """Start a step in every cache; if one fails, all forget it. Raises `ContextFull`."""
        try:
            return [cache.start(positions, sequence, ends) for cache in self.caches]
        except BaseException:
            self.remove(sequence, int(positions[0]))
            raise

    def remove(self, sequence: int, begin: int, end: int | None = None) -> list[Ints | None]:
        """`CausalCache.remove` in every cache; if one fails, all forget the sequence."""
        if self.encoded is not None and sequence == 0:
            self.encoded.remove(begin, end)
        try:
            return [cache.remove(sequence, begin, end) for cache in self.caches]
        except BaseException:
            for cache in self.caches:
                cache.remove(sequence, 0)
            if self.encoded is not None and sequence == 0:
                self.encoded.remove(0)
            raise

    def share(self, sequence: int, source: int, end: int) -> None:
        """`CausalCache.share` in every cache."""
        for cache in self.caches:
            cache.share(sequence, source, end)

    @property
    def n_free(self) -> int:
        """Cells that are free in every cache."""
        return min((cache.n_free for cache in self.caches), default=0)

    def can_resume(self, sequence: int, position: int) -> bool:
        """Whether every cache still holds what a token at `position` sees."""
        seen = self.encoded is None or sequence != 0 or self.encoded.can_resume(position)
        return seen and all(cache.can_resume(sequence, position) for cache in self.caches)

    def clear(self) -> None:
        """Forget everything."""
        if self.encoded is not None:
            self.encoded.remove(0)
        for cache in self.caches:
            cache.clear()
