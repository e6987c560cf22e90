"""Finds again what a model has read: by the chain of its blocks, in RAM and on the disk."""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.device.backend import Backend, Location
from engine.errors import ContextFull
from engine.graph.tensor import Tensor
from engine.kvcache.causal import POSITION, Ints
from engine.models.build import BuiltModel
from engine.prefixes import (
    BLOCK,
    Head,
    Saved,
    file_of,
    limit,
    read,
    read_head,
    tail_name,
    tails_by_block,
    tails_of,
)
from engine.runner.edits import PLAIN, SequenceEdits
from engine.runner.pictures.items import Item, before_group
from engine.runner.placing.room import Room
from engine.runner.prefixes.ram import RamPrefixes
from engine.runner.prefixes.rows import (
    CacheRows,
    Key,
    Wanted,
    chain,
    facts_of,
    key_of,
    with_adapters,
)
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions

LEAST = 512
"""Items of the shortest prefix that is kept."""
GAIN = 256
"""Items that a restored prefix has more than cells that can be shared."""
LOST = 32
"""Items that a sequence loses to another prompt before it is kept in RAM."""
READ_RATE = 1e9
"""Bytes per second that a disk is expected to give, until it was measured."""
PAYS = 3
"""Times as long as reading it back, that reading a prefix by the model is to take."""


@dataclass(frozen=True)
class Found:
    """A kept prefix of `n` items: whole blocks by their names, and a tail's name, "" for none."""

    n: int
    blocks: Sequence[str]
    tail: str = ""


class KeptPrefixes:
    """The kept prefixes of an open model. `most` bytes may be on the disk, 0 for none."""

    def __init__(
        self,
        built: BuiltModel,
        room: Room,
        host: Backend,
        files: Sequence[object],
        options: EngineOptions,
        adapters: Sequence[object] = (),
    ) -> None:
        self.built, self._room = built, room
        self.ram = RamPrefixes(host, options.cache_ram)
        self.most = limit(options.kept_chats)
        self._facts = facts_of(built, files, options.activations)
        self._adapters = adapters
        self._rows = CacheRows(built)
        caches = built.caches.caches
        self._whole = [i for i, one in enumerate(caches) if one.window is one.chunk is None]
        self._others = [i for i in range(len(caches)) if i not in self._whole]
        self.is_plain = not (self._others or built.caches.states.n_slots or built.caches.encoded)
        """True if blocks alone are enough to go on from."""
        self._prefill_rate = 0.0

    @property
    def placed(self) -> Mapping[Tensor, Location]:
        """Where caches are now."""
        return self._room.placed

    def _facts_of(self, edits: SequenceEdits) -> bytes:
        """The digest of all that rows of a sequence with these edits depend on but its items."""
        scales = self._room.stepper.scales if edits.scales is None else edits.scales
        return with_adapters(self._facts, self._adapters, scales)

    def measured(self, n: int, seconds: float) -> None:
        """The model has read n items of a prompt in so long."""
        if n >= LEAST and seconds > 0:
            self._prefill_rate = n / seconds

    def pays(self, n: int) -> bool:
        """True if n items are read much faster from the disk than by the model."""
        size = n * sum(self._rows.bytes_of(cache) for cache in self._whole)
        slow = not self._prefill_rate or n / self._prefill_rate > PAYS * size / READ_RATE
        return n >= LEAST and slow

    def remember(self, sequence: Sequenced) -> None:
        """Keep in RAM what a sequence holds, before it is forgotten."""
        if self.ram.most and _savable(sequence) >= LEAST:
            for name, saved in self.files(sequence, self.ram.has):
                if not self.ram.put(name, saved):
                    return

    def blocks(self, sequence: Sequenced) -> list[str]:
        """The names of a sequence's blocks."""
        return chain(self._facts_of(sequence.edits), sequence.items[: _savable(sequence)])[1:]

    def files(
        self, sequence: Sequenced, known: Callable[[str], bool], chat: str = ""
    ) -> Iterator[tuple[str, Saved]]:
        """Names and contents of what is not `known` of a sequence: blocks, then its tails. None of
        one that is short, or was computed with edits.
        """
        if _savable(sequence) < LEAST:
            return
        names = chain(self._facts_of(sequence.edits), sequence.items[: _savable(sequence)])
        for i, name in enumerate(names[1:]):
            if self._whole and not known(name):
                block = self._block(sequence, i)
                if block is None:
                    return
                yield name, block
        for name, n in self._tails(sequence, names, chat).items():
            if not known(name):
                tail = self._tail(sequence, names[1 : n // BLOCK + 1], n)
                if tail is not None:
                    yield name, tail

    def _tails(self, sequence: Sequenced, names: Sequence[str], chat: str) -> dict[str, int]:
        """The names of a sequence's tails and where they end: at its end, and where blocks alone
        are not enough at its turn, too.
        """
        end = _savable(sequence)
        turn = end if self.is_plain or sequence.turn < LEAST else min(sequence.turn, end)
        found = {}
        for n in sorted({turn, end}):
            whole = n // BLOCK
            keys = [key_of(item) for item in sequence.items[whole * BLOCK : n]]
            found[tail_name(names[whole], keys, chat)] = n
        return found

    def before(self, sequence: Sequenced, chat: str) -> list[Path]:
        """The tails of a chat that a sequence's own goes on from: they are needed no more."""
        names = chain(self._facts_of(sequence.edits), sequence.items[: _savable(sequence)])
        own, found = self._tails(sequence, names, chat), []
        for path in tails_of(chat):
            block, head = path.name.partition(".")[0], read_head(path)
            if block in names and path.name not in own and head is not None:
                begin = names.index(block) * BLOCK
                items = sequence.items[begin : begin + len(head.items)]
                if [key_of(item) for item in items] == head.items:
                    found.append(path)
        return found

    def _block(self, sequence: Sequenced, i: int) -> Saved | None:
        """The rows of a sequence's block number `i`."""
        begin = i * BLOCK
        keys = [key_of(item) for item in sequence.items[begin : begin + BLOCK]]
        wanted = self._cells(sequence, self._whole, [begin] * len(self._whole), begin + BLOCK)
        return None if wanted is None else wanted.saved(self.placed, Head(keys, []))

    def _cells(
        self, sequence: Sequenced, caches: Sequence[int], firsts: Sequence[int], end: int
    ) -> Wanted | None:
        """Rows of the positions from each of `firsts` up to `end`; None where one is gone."""
        found = Wanted()
        for cache, first in zip(caches, firsts, strict=True):
            cells = self.built.caches.caches[cache].cells_of(sequence.number, first, end)
            if len(cells) != end - first:
                return None
            found += self._rows.of_cells(cache, cells)
        return found

    def _tail(self, sequence: Sequenced, blocks: list[str], n: int) -> Saved | None:
        """All that is needed behind `blocks` to go on after n items; None where that is gone."""
        caches, number = self.built.caches, sequence.number
        firsts = [len(blocks) * BLOCK] * len(caches.caches)
        for i in self._others:
            cache = caches.caches[i]
            back, last = cache.first_seen(len(blocks) * BLOCK), cache.first_seen(n)
            firsts[i] = back if len(cache.cells_of(number, back, n)) == n - back else last
        wanted = self._cells(sequence, range(len(firsts)), firsts, n)
        slot = caches.states.held(number, n).get(n)
        if wanted is None or (caches.states.n_slots and slot is None):
            return None
        if slot is not None:
            wanted += self._rows.of_state(slot)
        rows: list[int] = []
        pictures: list[int] = []
        if caches.encoded is not None:
            cells, pictures = caches.encoded.held(number)
            rows = caches.encoded.cells[cells, POSITION].tolist()
            cells, rows = cells[: bisect_left(rows, n)], rows[: bisect_left(rows, n)]
            wanted += self._rows.of_pictures(cells)
        keys = [key_of(item) for item in sequence.items[len(blocks) * BLOCK : n]]
        head = Head(keys, [], blocks if self._whole else [], firsts, rows, pictures)
        return wanted.saved(self.placed, head)

    def find(self, items: Sequence[Item], held: int, edits: SequenceEdits = PLAIN) -> Found | None:
        """The longest kept prefix of a prompt, of which one item is left to be read; None where
        cells hold nearly as much.
        """
        if edits or len(items) <= max(LEAST, held + GAIN) or not (self.most or self.ram.most):
            return None
        names = chain(self._facts_of(edits), items[:-1])
        n_there = len(names) - 1
        if self._whole:
            there = (i for i, name in enumerate(names[1:]) if not self._has(name))
            n_there = next(there, n_there)
        best = Found(n_there * BLOCK if self.is_plain else 0, names[1 : n_there + 1])
        on_disk = tails_by_block() if self.most else {}
        for i in range(n_there, -1, -1):
            keys = [key_of(item) for item in items[i * BLOCK : (i + 1) * BLOCK]]
            listed = [(one.name, read_head(one)) for one in on_disk.get(names[i], ())]
            for name, head in (*self.ram.tails(names[i]), *listed):
                if head is not None:
                    same = i * BLOCK + _alike(head.items, keys)
                    n = before_group(items, min(same, len(items) - 1))
                    n = self._reachable(head, n, i * BLOCK + len(head.items))
                    if n > best.n:
                        best = Found(n, names[1 : i + 1], name)
            if best.n >= i * BLOCK:
                break
        return best if best.n >= max(LEAST, held + GAIN) else None

    def _has(self, block: str) -> bool:
        return self.ram.has(block) or (self.most > 0 and file_of(block).is_file())

    def _reachable(self, head: Head, n: int, end: int) -> int:
        """The most items up to n after which all that is needed is in a tail of `end` items; 0 for
        none.
        """
        caches = self.built.caches
        if len(head.firsts) != len(caches.caches) or (caches.states.n_slots and n != end):
            return 0
        seen = all(head.firsts[i] <= caches.caches[i].first_seen(n) for i in self._others)
        return n if seen else 0

    def restore(
        self, sequence: Sequenced, items: Sequence[Item], found: Found
    ) -> Generator[int, None, None]:
        """Have a sequence hold what was found of these items, and nothing else, as far as that can
        be read. Yields how many are there by now; closed early, it holds nothing.
        """
        sequence.clear()
        caches, number = self.built.caches, sequence.number
        n, done = found.n, 0
        try:
            tail = self._load(found.tail) if found.tail else None
            if found.tail and tail is None:
                if not self.is_plain:
                    return
                n = len(found.blocks) * BLOCK
            cells = self._taken(number, n)
            yield 0
            for i, name in enumerate(found.blocks if self._whole else ()):
                begin = i * BLOCK
                end = min(begin + BLOCK, n)
                block = self._load(name)
                if block is None or not all(
                    self._rows.of_cells(one, cells[one][begin:end]).restore(
                        self.placed, block, 0, BLOCK
                    )
                    for one in self._whole
                ):
                    return
                done = end if self.is_plain else 0
                yield end
            base = len(found.blocks) * BLOCK
            if tail is None or self._fill(number, tail, base, cells, n):
                done = n
        except ContextFull:
            done = 0
        finally:
            caches.remove(number, done)
            sequence.items = list(items[:done])
            if not done:
                sequence.clear()

    def _taken(self, number: int, n: int) -> list[Ints]:
        """Cells of each cache for the positions up to n, that a next token sees. Raises
        `ContextFull`.
        """
        found = []
        for i, cache in enumerate(self.built.caches.caches):
            first = 0 if i in self._whole else cache.first_seen(n)
            positions = np.arange(first, n, dtype=np.int32)
            found.append(cache.start(positions, number).ids)
        return found

    def _fill(self, number: int, tail: Saved, base: int, cells: list[Ints], n: int) -> bool:
        """Fill the `cells` of a sequence's n items, and its state, from the tail that follows the
        first `base` of them. False where that is not in it.
        """
        head, caches = tail.head, self.built.caches
        end = base + len(head.items)
        for i, ids in enumerate(cells):
            first, count = head.firsts[i], end - head.firsts[i]
            mine = ids[base:] if i in self._whole else ids
            skipped = 0 if i in self._whole else n - len(ids) - first
            if not self._rows.of_cells(i, mine).restore(self.placed, tail, skipped, count):
                return False
        if caches.encoded is not None:
            rows = [one for one in head.rows if one < n]
            pictures = [one for one in head.pictures if one < n]
            wanted = self._rows.of_pictures(caches.encoded.place(number, rows, pictures))
            if not wanted.restore(self.placed, tail, 0, len(head.rows)):
                return False
        if not caches.states.n_slots:
            return True
        wanted = self._rows.of_state(caches.states.place(number, n))
        return wanted.restore(self.placed, tail)

    def _load(self, name: str) -> Saved | None:
        """Return what is kept by a block's or a tail's name."""
        held = self.ram.get(name)
        if held is not None or not self.most:
            return held
        return read(file_of(name))


def _savable(sequence: Sequenced) -> int:
    """How many of a sequence's items are as the model reads them anew."""
    if sequence.edits:
        return 0
    return before_group(sequence.items, min(len(sequence.items), sequence.exact))


def _alike(one: Sequence[Key], other: Sequence[Key]) -> int:
    """How many keys two begin with that are the same."""
    same = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))
