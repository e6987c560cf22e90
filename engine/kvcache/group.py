"""Several caches that see the same tokens: a model with full and windowed layers."""

from collections.abc import Sequence

from engine.kvcache.causal import CacheStep, CausalCache, Ints, owners_of, parts_of
from engine.kvcache.encoded import EncodedCache
from engine.kvcache.states import StateCache


class CacheGroup:
    """Fans every call out to its caches and keeps them consistent.

    `encoded` has the rows of pictures where a model keeps them, `states` the slots of recurrent
    states.
    """

    def __init__(
        self,
        caches: Sequence[CausalCache],
        encoded: EncodedCache | None = None,
        states: StateCache | None = None,
    ) -> None:
        self.caches = tuple(caches)
        self.encoded = encoded
        self.states = states or StateCache(0)

    def start(
        self, positions: Ints, sequences: Ints | int, ends: Ints | None = None
    ) -> list[CacheStep]:
        """`CausalCache.start` in every cache; if one fails, all forget it. Raises `ContextFull`."""
        try:
            return [cache.start(positions, sequences, ends) for cache in self.caches]
        except BaseException:
            owners = owners_of(sequences, len(positions))
            for sequence, begin, _ in parts_of(owners):
                self.remove(sequence, int(positions[begin]))
            raise

    def remove(self, sequence: int, begin: int, end: int | None = None) -> list[Ints | None]:
        """`CausalCache.remove` in every cache; if one fails, all forget the sequence."""
        try:
            self.states.remove(sequence, begin, end)
            if self.encoded is not None:
                self.encoded.remove(sequence, begin, end)
            return [cache.remove(sequence, begin, end) for cache in self.caches]
        except BaseException:
            self.states.remove(sequence, 0)
            for cache in self.caches:
                cache.remove(sequence, 0)
            if self.encoded is not None:
                self.encoded.remove(sequence, 0)
            raise

    def share(self, sequence: int, source: int, end: int) -> None:
        """`CausalCache.share` in every cache."""
        self.states.share(sequence, source, end)
        if self.encoded is not None:
            self.encoded.share(sequence, source, end)
        for cache in self.caches:
            cache.share(sequence, source, end)

    @property
    def n_free(self) -> int:
        """Cells that are free in every cache."""
        return min((cache.n_free for cache in self.caches), default=0)

    def resumable(self, sequence: int, n: int) -> int:
        """The last position up to `n` at which every cache still holds what its next token sees."""
        while n:
            before = n
            n = self.states.resumable(sequence, n)
            if self.encoded is not None:
                n = self.encoded.resumable(sequence, n)
            for cache in self.caches:
                n = cache.resumable(sequence, n)
            if n == before:
                break
        return n

    def clear(self) -> None:
        """Forget everything."""
        self.states.clear()
        if self.encoded is not None:
            self.encoded.clear()
        for cache in self.caches:
            cache.clear()
