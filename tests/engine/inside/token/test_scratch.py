"""A token computed again beside the conversation: its cells stay as they are, whatever happens."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from engine.errors import Cancelled, DeviceError
from engine.inside.token.context import context_of
from engine.inside.token.examine import SCRATCH, examine
from engine.kvcache.causal import BITS
from engine.protocol import Attended, Examine, Examined, Progress, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.pictures.items import Item
from engine.runner.sequence import Sequenced
from tests.engine.inside.token import oracle
from tests.engine.models.herons import known, write_heron
from tests.engine.runner.failing import fail, n_steps
from tests.engine.runner.pictures.seeing import answer, bring, noise, says, seeing, sequence_of
from tests.goldens.tiny import write_tiny
from tests.kernels.harness import nmse

TOKENS = [4 + (7 * i + i * i) % 300 for i in range(40)]
ASK = Examine(
    1,
    prompt="a",
    prefix_tokens=TOKENS,
    at=30,
    lens=True,
    attention_layers=[1],
    sampling=Sampling(),
    record=True,
)


@pytest.fixture(scope="module", params=["llama", "gemma3", "heron"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    path = tmp_path_factory.mktemp("scratch") / "tiny.gguf"
    write_heron(path) if request.param == "heron" else write_tiny(path, request.param)
    with known(), load(path, device="host", ctx=64) as model:
        yield model


@dataclass
class State:
    """All that the caches hold of a conversation, to the bit."""

    items: list[Item]
    cells: list[np.ndarray]
    counts: list[tuple[int, int]]
    kept: list[bytes]

    @classmethod
    def of(cls, model: Model, conversation: Sequenced) -> "State":
        built, placed = model.loaded.built, model.loaded.stepper.planner.placed
        caches = built.caches.caches
        kept = []
        for layer in built.layers:
            if layer is None:
                continue
            encoded = built.caches.encoded
            cells = caches[layer.cache].cells if layer.cache >= 0 else encoded.cells  # type: ignore[union-attr]
            for leaf in layer.leaves:
                at = placed[leaf]
                rows = at.buffer.read(at.offset, leaf.nbytes).reshape(leaf.shape[1], -1)
                kept.append(rows[np.flatnonzero(cells[:, BITS])].tobytes())
        states = built.caches.states
        for layer in built.states:
            for leaf in layer.leaves if layer is not None else ():
                at = placed[leaf]
                rows = at.buffer.read(at.offset, leaf.nbytes).reshape(leaf.shape[1], -1)
                latest = states.read[states.bits == 1].argmax()
                kept.append(rows[np.flatnonzero(states.bits == 1)[latest]].tobytes())
        counts = [(cache.n_kv, cache.n_free) for cache in caches]
        return cls(list(conversation.items), [c.cells.copy() for c in caches], counts, kept)

    def check(self, other: "State") -> None:
        """That nothing has changed."""
        assert self.items == other.items
        assert self.counts == other.counts
        assert self.kept == other.kept
        for mine, theirs in zip(self.cells, other.cells, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def conversing(model: Model, items: list[Item] | None = None) -> Sequenced:
    model.loaded.built.caches.clear()
    conversation = Sequenced(model.loaded.stepper, model.loaded.viewer)
    n_first = len(model.loaded.tokenizer.encode("a"))
    first: list[Item] = [*model.loaded.tokenizer.encode("a"), *TOKENS][: n_first + 40]
    oracle.compute(conversation, first if items is None else items)
    return conversation


def check_next(conversation: Sequenced) -> None:
    """The next answer computes its new token and no other, and says what it would have said."""
    items = list(conversation.items)
    assert conversation.reuse([*items, 77]) == len(items)
    got = conversation.append(77)
    conversation.stepper.built.caches.clear()
    conversation.items = []
    assert nmse(got, oracle.compute(conversation, [*items, 77])) < 1e-5


def test_the_conversation_stays_to_the_bit(model: Model) -> None:
    conversation = conversing(model)
    before = State.of(model, conversation)
    for at in (2, 20, 36, None):
        found = oracle.look(model, conversation, replaced(at=at))
        assert found.note == ""
        assert found.step is not None
        assert found.step.launches
        assert found.step.step_ns > max(one.end - one.start for one in found.step.launches)
        before.check(State.of(model, conversation))
    check_next(conversation)


def replaced(**changes: object) -> Examine:
    fields = {name: getattr(ASK, name) for name in ASK.__struct_fields__}
    return Examine(**(fields | changes))


def test_a_branch_of_the_conversation_too(model: Model) -> None:
    """What differs is computed beside it, with progress."""
    conversation = conversing(model)
    before = State.of(model, conversation)
    other = TOKENS[:10] + [5, 6, 7, 8]
    request = replaced(prefix_tokens=other, at=14)
    replies = list(examine(model.loaded, conversation, request, oracle.never))
    found = replies[-1]
    assert isinstance(found, Examined)
    assert found.note == ""
    before.check(State.of(model, conversation))
    if found.n_computed > 1:
        assert any(isinstance(reply, Progress) and reply.stage == "prefill" for reply in replies)
    reads_all = model.loaded.built.arch in ("gemma3", "heron")
    n_shared = 0 if reads_all else len(conversation.items) - 30
    assert found.n_computed <= 14 - n_shared
    items = np.frombuffer(found.items.ids, "<i4").tolist()[:14]
    told = oracle.told(model, conversing(model, items[:1]), items)
    assert found.lens is not None
    logp = np.frombuffer(found.lens.wanted_logp, "<f4")[-1]
    assert abs(logp - oracle.log_softmax(told.logits)[found.lens.wanted]) < 1e-3


def check_failures(model: Model, trials: int) -> None:
    """At so many steps evenly, and where the scratch begins and ends."""
    conversation = conversing(model)
    oracle.look(model, conversation, ASK)
    before = State.of(model, conversation)
    total = n_steps(lambda: oracle.look(model, conversation, ASK))
    evenly = range(1, total, max(1, total // trials))
    errors = (DeviceError("host", "a launch failed"), MemoryError(), RuntimeError("a bug"))
    for nth in sorted({*range(1, 9), *evenly, *range(total - 30, total, 3)}):
        error = errors[nth % 3]
        came = fail(lambda: oracle.look(model, conversation, ASK), nth, error)
        assert came is None or came is error or came.__cause__ is error, (nth, came)
        before.check(State.of(model, conversation))
    check_next(conversation)


def test_a_failure_anywhere(model: Model) -> None:
    check_failures(model, trials=12)


@pytest.mark.full
def test_a_failure_at_each_step(model: Model) -> None:
    check_failures(model, trials=1000)


def test_cancelled_at_each_look(model: Model) -> None:
    conversation = conversing(model)
    before = State.of(model, conversation)
    request = replaced(prefix_tokens=[9, *TOKENS[1:]])
    for n in count():
        looks = iter([False] * n)
        try:
            list(examine(model.loaded, conversation, request, lambda a=looks: next(a, True)))  # type: ignore[misc]
        except Cancelled:
            before.check(State.of(model, conversation))
        else:
            break
    assert n > 3 + sum(
        layer is not None for layer in model.loaded.built.layers
    )  # before each layer's attention, too
    check_next(conversation)


def test_left_in_the_middle(model: Model) -> None:
    conversation = conversing(model)
    before = State.of(model, conversation)
    replies = examine(
        model.loaded, conversation, replaced(prefix_tokens=[9, *TOKENS[1:]]), oracle.never
    )
    next(replies)
    replies.close()  # type: ignore[attr-defined]
    before.check(State.of(model, conversation))


def test_without_a_free_cell_the_conversation_goes_back_and_it_is_said(model: Model) -> None:
    cells = model.loaded.built.caches.caches[0].n_cells
    conversation = conversing(model)
    conversation.stepper.built.caches.caches[0].start(
        np.arange(cells - len(conversation.items), dtype=np.int32), 9
    )
    found = oracle.look(model, conversation, ASK)
    assert "no room for it beside the conversation" in found.note
    assert "tokens from 29 on again" in found.note or "tokens from 0 on" in found.note
    assert len(conversation.items) == 30
    model.loaded.built.caches.remove(9, 0)
    assert not any((c.cells[:, BITS] >> SCRATCH).any() for c in model.loaded.built.caches.caches)
    check_next(conversation)


def test_the_last_token_of_a_full_context(model: Model) -> None:
    """It was drawn, and had no room to be computed."""
    conversation = conversing(model)
    n_ctx = conversation.n_ctx
    first = model.loaded.tokenizer.encode("a")
    tokens = (TOKENS * 2)[: n_ctx + 1 - len(first)]
    oracle.compute(conversation, [*first, *tokens[:-1]])
    assert len(conversation.items) == n_ctx
    before = State.of(model, conversation)
    found = oracle.look(model, conversation, replaced(prefix_tokens=tokens, at=n_ctx))
    assert found.n_context == n_ctx
    if not found.note:
        before.check(State.of(model, conversation))


def test_after_a_shift_the_context_is_what_is_left(model: Model) -> None:
    first = model.loaded.tokenizer.encode("a")
    conversation = conversing(model)
    tokens = [4 + (11 * i * i + i) % 311 for i in range(conversation.n_ctx + 9 - len(first))]
    all_items: list[Item] = [*first, *tokens]
    oracle.compute(conversation, all_items[: conversation.n_ctx])
    conversation.shift(3, oracle.never)
    for token in all_items[conversation.n_ctx : -1]:
        assert isinstance(token, int)
        conversation.append(token)
    left = [*conversation.items, all_items[-1]]
    before = State.of(model, conversation)
    for at in (len(left) - 1, 20):
        found = oracle.look(model, conversation, replaced(prefix_tokens=tokens, at=at))
        assert np.frombuffer(found.items.ids, "<i4").tolist() == left
        assert found.note == ""
        assert found.n_computed == 1 or model.loaded.built.arch == "heron"
        before.check(State.of(model, conversation))


def test_nothing_is_computed_where_nothing_is_asked(model: Model) -> None:
    conversation = Sequenced(model.loaded.stepper)
    request = Examine(1, prompt="a b", at=1)
    looked = list(examine(model.loaded, conversation, request, lambda: True))
    assert len(looked) == 1
    assert isinstance(looked[0], Examined)
    assert looked[0].items.text.endswith("a b")
    assert looked[0].n_context == 1


@pytest.mark.parametrize("family", ["gemma3", "qwen2vl", "hunyuanvl", "llama4", "mllama"])
def test_pictures(tmp_path: Path, family: str) -> None:
    """Windows, groups, places of several axes, chunks, and layers that look at pictures."""
    with seeing(tmp_path, family, is_single=family in ("llama4", "mllama")) as model:
        sequence = sequence_of(model)
        chat = [says("what is", bring(model, noise(3)), "here")]
        ids, _ = answer(model, sequence, chat, 6)
        before = State.of(model, sequence)
        n = len(sequence.items)
        assert n
        for at in (n - 4, n - 1):
            request = Examine(
                1, messages=chat, prefix_tokens=ids, at=at, lens=True, attention_layers=[0, 1]
            )
            found = oracle.look(model, sequence, request)
            assert (found.note, found.n_computed) == ("", 1)
            before.check(State.of(model, sequence))
            assert bool(found.items.rows) == (family != "mllama")  # of which none is in the prompt
            check_seen(model, found, list(before.items), at)
            before = State.of(model, sequence)


def check_seen(model: Model, found: Examined, items: list[Item], at: int) -> None:
    """Its row of the output is what a conversation of its own says; rows of pictures are places."""
    attended, lens = found.attention, found.lens
    assert isinstance(attended, Attended)
    assert lens is not None
    assert attended.n_places == at
    for row in attended.rows.values():
        shares = np.frombuffer(row, "<f4").reshape(attended.n_head, at)
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    told = oracle.told(model, sequence_of(model), items[:at])
    logp = np.frombuffer(lens.wanted_logp, "<f4")[-1]
    assert abs(logp - oracle.log_softmax(told.logits)[lens.wanted]) < 1e-4
    oracle.compute(sequence := sequence_of(model), items)
    assert sequence.items == items


@pytest.mark.parametrize("n_held", [1, 3])
def test_a_picture_that_enters_layers_needs_room(tmp_path: Path, n_held: int) -> None:
    """There is some for three: beside one that the conversation looks at there is enough."""
    with seeing(tmp_path, "mllama", is_single=True) as model:
        sequence = sequence_of(model)
        held = [bring(model, noise(3 + i)) for i in range(n_held)]
        ids, _ = answer(model, sequence, [says(*held, "here")], 4)
        before = State.of(model, sequence)
        other = [says("what is", bring(model, noise(9)), "here")]
        request = Examine(1, messages=other, prefix_tokens=ids, at=None, lens=True)
        found = oracle.look(model, sequence, request)
        assert ("no room for it beside" in found.note) == (n_held == 3)
        if n_held == 1:
            before.check(State.of(model, sequence))
        items = context_of(model.loaded, sequence, request).items
        assert found.lens is not None
        logp = np.frombuffer(found.lens.wanted_logp, "<f4")[-1]
        told = oracle.told(model, sequence_of(model), items)
        assert abs(logp - oracle.log_softmax(told.logits)[found.lens.wanted]) < 1e-4
