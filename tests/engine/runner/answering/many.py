"""Several answers of one model at once, in this process, and what can be checked at any moment."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.kvcache.causal import BITS, POSITION
from engine.protocol import Finished, Generate, Piece, Reply, Sampling
from engine.runner.answering.answer import RunningAnswer
from engine.runner.answering.batcher import Batcher, Broken
from engine.runner.answering.slots import Slots
from engine.runner.api import Model
from engine.runner.drafting.economy import Economy
from engine.runner.sequence import ALL
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.goldens.tiny import Draws, write_tiny

GREEDY = Sampling(temperature=0)


def tiny(folder: Path, name: str) -> Path:
    """A random model: of an architecture of `tests.goldens.tiny`, else of the table's row."""
    if name in ("llama", "gemma3", "mistral3"):
        return write_tiny(folder / "tiny.gguf", name)
    return write(ROWS[name], folder)


def ids(seed: int, n: int) -> list[int]:
    """Tokens that all of these have."""
    found: list[int] = (4 + Draws(seed).ids(n) % 90).tolist()
    return found


def asked(number: int, tokens: list[int], n: int = 8, **more: object) -> Generate:
    """A greedy continuation of tokens, which nothing ends before its `n`."""
    given = {"sampling": GREEDY, "max_tokens": n, "endless": True} | more
    return Generate(number, prompt_tokens=tokens, **given)


class Fixed(Economy):
    """Has up to so many drafted tokens computed for each answer, whatever that takes."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def shares(
        self, chances: Sequence[Sequence[float]], n_writing: int, n_rows: int
    ) -> tuple[list[int], float]:
        return [min(self.n, len(one)) for one in chances], 1.0

    def guesses(self, *_: object) -> tuple[int, float]:
        return 0, 0.0

    def plain(self, n_writing: int) -> float:
        return 1e6  # no account ever rests

    def missed(self, seconds: float) -> bool:
        return True  # plans are made at once


@dataclass
class Many:
    """Answers under way: what each told, by its request's number. Nothing is drafted but where an
    `economy` says so: a turn draws a token of each.
    """

    model: Model
    told: dict[int, list[Reply | Broken]] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    economy: Economy = field(default_factory=lambda: Fixed(0))

    def __post_init__(self) -> None:
        self.model.loaded.built.caches.clear()
        self.slots = Slots(self.model.loaded)
        self.batcher = Batcher(self.model.loaded, self.slots, self.economy)

    def ask(self, request: Generate) -> RunningAnswer:
        stop: Callable[[], bool] = lambda: request.id in self.cancelled  # noqa: E731
        answer = RunningAnswer(self.model.loaded, request, stop)
        self.told[request.id] = []
        self.batcher.add(answer)
        return answer

    def turn(self) -> None:
        for one in self.batcher.turn():
            number = one.answer.request.id if isinstance(one, Broken) else one.id
            self.told[number].append(one)
        self.check()

    def finish(self, most: int = 5000) -> None:
        for _ in range(most):
            if self.batcher.is_idle:
                return
            self.turn()
        raise AssertionError("it does not end")

    def tokens(self, number: int) -> list[int]:
        pieces = (one for one in self.told[number] if isinstance(one, Piece))
        return [info.token for piece in pieces for info in piece.tokens]

    def end(self, number: int) -> Finished | Broken:
        """The one end that it has, which comes last."""
        ends = [one for one in self.told[number] if isinstance(one, Finished | Broken)]
        assert len(ends) == 1
        assert self.told[number][-1] is ends[0]
        return ends[0]

    def check(self) -> None:
        """Cells and items agree: no cell belongs to nobody, and none to somebody who has not such
        an item; who is idle is in no answer's way.
        """
        caches = self.model.loaded.built.caches
        for cache in caches.caches:
            known = sum(1 << one.number for one in self.slots.sequences)
            assert not (cache.cells[:, BITS] & ~known).any()
            for one in self.slots.sequences:
                mine = (cache.cells[:, BITS] >> one.number & 1) != 0
                places = sorted(cache.cells[mine, POSITION].tolist())
                assert len(set(places)) == len(places)
                last = len(one.items)
                if cache.window is None:
                    assert places == list(range(last))
                else:
                    # What had left the window before a shift stays away when what follows moves.
                    moved = 0 if one.exact == ALL else one.exact
                    assert last - len(places) <= max(moved, last - cache.window + 1, 0)
                    assert places == list(range(last - len(places), last))
            used = np.count_nonzero(cache.cells[:, BITS])
            assert cache.n_free == cache.n_cells - used
        self.check_states()
        self.check_pictures()
        held = {answer.sequence.number: answer for answer in self.batcher.running}
        assert held == self.slots.held

    def check_states(self) -> None:
        """Who holds items has their state in a slot; no slot belongs to nobody."""
        states = self.model.loaded.built.caches.states
        if states.n_slots:
            known = sum(1 << one.number for one in self.slots.sequences)
            assert not (states.bits & ~known).any()
            for one in self.slots.sequences:
                mine = states.read[(states.bits >> one.number & 1) != 0]
                assert max(mine, default=0) == len(one.items)

    def check_pictures(self) -> None:
        """Rows that layers look at are those of pictures that are held."""
        encoded = self.model.loaded.built.caches.encoded
        if encoded is not None:
            known = sum(1 << one.number for one in self.slots.sequences)
            assert not (encoded.cells[:, BITS] & ~known).any()
            for one in self.slots.sequences:
                mine = encoded.cells[(encoded.cells[:, BITS] >> one.number & 1) != 0]
                held = {i for i, item in enumerate(one.items) if not isinstance(item, int)}
                assert set(mine[:, POSITION].tolist()) <= held


def alone(model: Model, requests: Iterable[Generate]) -> dict[int, list[int]]:
    """The tokens of each request, one after the other in an empty cache."""
    found = {}
    for request in requests:
        one = Many(model)
        one.ask(request)
        one.finish()
        found[request.id] = one.tokens(request.id)
    return found
