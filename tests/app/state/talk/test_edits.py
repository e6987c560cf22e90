"""The edits of a chat: in words, undone and redone, and a chat after them equal to one without."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QObject

from app.state.talk.chat_edits import ChatEdits
from app.state.talk.disk.store import ChatStore
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import (
    NEVER,
    NO_EDITS,
    ChatEdit,
    EditSet,
    Move,
    all_words,
    words,
)
from app.state.trial import control_of
from app.state.workbench import Workbench
from engine.errors import BadSetting
from engine.protocol import Edit, Sampling
from engine.settings import EngineOptions
from tests.app.state.conftest import Until

E = 64  # of the tiny model
OFF = ChatEdit(Edit.scale("heads", 1, by=0, head=1))
HALF = ChatEdit(Edit.of("scale", "residual", 1, 0.5, delta=True))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (OFF, "layer 1 · head 1 off"),
        (HALF, "layer 1 × 0.5"),
        (ChatEdit(Edit.scale("feed_forward", 3, by=2)), "layer 3 · feed-forward × 2"),
        (ChatEdit(Edit.scale("Qcur", [3, 4, 5], by=0)), "layers 3–5 · Qcur off"),
        (ChatEdit(Edit.scale("Qcur", [3, 9], by=0)), "2 layers from 3 to 9 · Qcur off"),
        (
            ChatEdit(Edit.of("set", "ffn_moe_logits", 4, NEVER, channels=(17, 18))),
            "layer 4 · expert 17 off",
        ),
        (
            ChatEdit(Edit.of("scale", "ffn_moe_down", 4, 0.5, expert=17)),
            "layer 4 · expert 17 × 0.5",
        ),
        (
            ChatEdit(Edit.of("scale", "ffn_gate", 2, 0, channels=(7, 8), positions="answer")),
            "layer 2 · ffn_gate channel 7 off in the answer",
        ),
        (
            ChatEdit(Edit("residual", [1, 2], "add", value=1.5), "0" * 64, "happy"),
            "layers 1–2 + 1.5 × “happy”",
        ),
        (
            ChatEdit(Edit("residual", [1], "set", positions="last"), "0" * 64, "Hello?"),
            "layer 1 from “Hello?” at the last prompt token",
        ),
    ],
)
def test_an_edit_in_words(one: ChatEdit, said: str) -> None:
    assert words(one) == said


def test_all_of_them_in_words() -> None:
    found = EditSet((OFF, HALF), seed=3, moves=(Move(9, 5, 1, 0.7),))
    assert all_words(found).startswith(
        "Layer 1 · head 1 off; layer 1 × 0.5 (random control, seed 3)"
    )


@pytest.fixture
def edits(store: ChatStore) -> Iterator[tuple[ChatEdits, list[EditSet]]]:
    """Edits of a chat, and what is written of them."""
    written: list[EditSet] = []
    parent = QObject()

    def write(edits: EditSet, vectors: object) -> bool:
        written.append(edits)
        return True

    yield ChatEdits(store.vectors, write, parent), written
    parent.deleteLater()


def test_a_slider_that_is_let_go_ends_its_step(edits: tuple[ChatEdits, list[EditSet]]) -> None:
    state, _ = edits
    state.add(HALF)
    for value in (0.6, 0.7):
        one = ChatEdit(msgspec.structs.replace(HALF.edit, value=value))
        state.put(0, one, sliding=True)
        state.put(0, one)  # as it is when the mouse is up
    state.undo()
    assert state.value.edits[0].edit.value == 0.6


def test_undo_and_redo_and_a_slider_is_one_step(
    edits: tuple[ChatEdits, list[EditSet]],
) -> None:
    state, written = edits
    state.add(OFF)
    state.add(HALF)
    for value in (0.6, 0.7, 0.8):
        edit = msgspec.structs.replace(HALF.edit, value=value)
        state.put(1, ChatEdit(edit), sliding=True)
    assert [len(one.edits) for one in written] == [1, 2, 2, 2, 2]
    assert state.value.edits[1].edit.value == 0.8
    state.undo()
    assert state.value.edits == (OFF, HALF)
    state.undo()
    state.undo()
    assert state.value == NO_EDITS
    assert not state.can_undo
    for _ in range(3):
        state.redo()
    assert state.value.edits[1].edit.value == 0.8
    assert not state.can_redo
    state.switch(0, False)
    assert state.value.active.edits == state.value.edits[1:]
    state.switch_all(False)
    assert state.value.active == NO_EDITS
    state.remove(0)
    state.clear()
    assert written[-1] == NO_EDITS


def test_what_no_model_could_do_is_refused_and_changes_nothing(
    edits: tuple[ChatEdits, list[EditSet]],
) -> None:
    state, written = edits
    for edit in (
        Edit("", [1], "scale"),
        Edit("x\ny", [1], "scale"),
        Edit("residual", [-1], "scale"),
        Edit("residual", [1], "scale", positions="later"),
        Edit("residual", [1], "scale", value=float("nan")),
        Edit("residual", [1], "add", vector=bytes(4)),
    ):
        with pytest.raises(BadSetting):
            state.add(ChatEdit(edit))
    assert state.value == NO_EDITS
    assert written == []


def test_a_control_has_random_directions_and_other_heads() -> None:
    steered = ChatEdit(Edit("residual", [1], "add"), "0" * 64, "happy")
    found = control_of(EditSet((OFF, steered)), 5, 4)
    assert found is not None
    assert found.seed == 5
    head = found.edits[0].edit.head
    assert head is not None
    assert head != 1
    assert 0 <= head < 4
    assert found.edits[1] == steered
    seen = {control_of(EditSet((OFF,)), seed, 4).edits[0].edit.head for seed in range(40)}  # type: ignore[union-attr]
    assert seen == {0, 2, 3}
    assert control_of(EditSet((HALF,)), 1, 4) is None


@pytest.fixture
def tiny(bench: Workbench, tiny_path: Path, until: Until) -> Workbench:
    """A tiny model on the host, which answers the same each time."""
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256, parallel=1))
    until(lambda: bench.session.status == "ready")
    bench.chat.details.set_sampling(Sampling(temperature=0.0))
    bench.chat.details.set_limits(msgspec.structs.replace(bench.chat.details.limits, max_tokens=8))
    return bench


def answer(
    bench: Workbench, until: Until, row: int | None = None
) -> list[tuple[int, float | None]]:
    """The tokens of an answer, with their log-probabilities to the bit."""
    chat = bench.chat
    assert chat.send("the hat on the mat") if row is None else chat.regenerate(row)
    until(lambda: not chat.busy)
    assert chat.path[-1].problem == ""
    tokens = chat.tokens(len(chat.path) - 1)
    return [(tokens[n].token, tokens.logprob(n)) for n in range(len(tokens))]


def test_a_chat_after_edits_is_equal_to_one_that_never_had_them(
    tiny: Workbench, until: Until
) -> None:
    chat = tiny.chat
    plain = answer(tiny, until)
    hash, data = pack({1: np.linspace(-1, 1, E, dtype=np.float32)})
    steer = ChatEdit(Edit("residual", [1], "add", value=3.0), hash, "v")
    chat.edits.add(OFF)
    chat.edits.add(steer, {hash: data})
    edited = answer(tiny, until, 1)
    assert edited != plain
    assert chat.path[1].edits.edits == (OFF, steer)
    assert chat.path[1].siblings == 2
    chat.edits.clear()
    again = answer(tiny, until, 1)
    assert again == plain
    assert chat.path[1].edits == NO_EDITS
    chat.choose_sibling(1, -1)
    chat.edits.undo()
    assert answer(tiny, until, 1) == edited
    chat.open(None)
    chat.details.set_sampling(Sampling(temperature=0.0))
    assert chat.edits.value == NO_EDITS
    assert answer(tiny, until) == plain


def test_edits_before_the_first_question_are_stored_with_it(tiny: Workbench, until: Until) -> None:
    chat = tiny.chat
    hash, data = pack({1: np.ones(E, np.float32)})
    chat.edits.add(ChatEdit(Edit("residual", [1], "add"), hash, "v"), {hash: data})
    answer(tiny, until)
    first, kept = chat.chat_id, chat.edits.value
    chat.open(None)
    assert chat.edits.value == NO_EDITS
    chat.open(first)
    assert chat.edits.value == kept
    assert not chat.edits.can_undo
    assert [one.value for one in chat.edits.of(chat.path[1])] == [1.0]


def test_what_the_engine_refuses_is_said_at_the_answer(tiny: Workbench, until: Until) -> None:
    chat = tiny.chat
    chat.edits.add(ChatEdit(Edit.scale("heads", 99, by=0, head=0)))
    assert chat.send("the hat")
    until(lambda: not chat.busy)
    assert chat.path[-1].finish == "failed"
    assert "layers" in chat.path[-1].problem
    assert tiny.session.status == "ready"
