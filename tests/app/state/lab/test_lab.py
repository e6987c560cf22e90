"""Verbs of a selection, and steering, with a tiny model."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from app.state.lab.verbs import target_of
from app.state.selection import Selected, link_of, selected_of
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import NEVER, ChatEdit, words
from app.state.token.word import Word
from app.state.workbench import Workbench
from engine.gguf.control_vector import read_directions
from engine.protocol import Edit, Sampling
from engine.runner import load
from engine.settings import EngineOptions
from tests.app.state.conftest import Until


@pytest.mark.parametrize(
    ("selected", "edit"),
    [
        (Selected(layer=2), Edit.of("scale", "residual", 2, 0, delta=True)),
        (Selected(layer=2, head=3), Edit.scale("heads", 2, by=0, head=3)),
        (
            Selected(layer=2, operation="ffn_moe_out-2", expert=5),
            Edit.of("scale", "ffn_moe_down", 2, 0, expert=5),
        ),
        (Selected(layer=2, operation="Qcur-2"), Edit.scale("Qcur", 2, by=0)),
        (
            Selected(layer=2, operation="Qcur-2#1", channel=9),
            structs.replace(Edit.of("scale", "Qcur", 2, 0, channels=(9, 10)), occurrence=1),
        ),
        (Selected(operation="embd"), Edit.scale("embd", [], by=0)),
        (Selected(operation="node_12"), None),
        (Selected(layer=2, operation="Kcur-2 (view)"), None),
        (Selected(layer=30), None),
        (Selected(layer=2, tensor="blk.2.ffn_up.weight"), None),
        (Selected(), None),
    ],
)
def test_what_of_a_selection_can_be_edited(selected: Selected, edit: Edit | None) -> None:
    target = target_of(selected, 30)
    assert (None if target is None else target.edit) == edit


def test_experts_and_channels_are_in_links() -> None:
    one = Selected(layer=2, operation="Qcur-2", channel=123456789)
    two = Selected(layer=2, operation="ffn_moe_out-2", expert=5)
    assert selected_of(link_of(one)) == one
    assert selected_of(link_of(two)) == two


@pytest.fixture
def tiny(bench: Workbench, tiny_path: Path, until: Until) -> Workbench:
    """A tiny model on the host."""
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256, parallel=1))
    until(lambda: bench.session.status == "ready" and bench.token.parts is not None)
    bench.chat.details.set_sampling(Sampling(temperature=0.0))
    bench.chat.details.set_limits(structs.replace(bench.chat.details.limits, max_tokens=4))
    return bench


def ask(bench: Workbench, until: Until, question: str) -> None:
    assert bench.chat.send(question)
    until(lambda: not bench.chat.busy)
    assert bench.chat.path[-1].problem == ""


def test_an_expert_that_is_off_is_never_chosen(tiny: Workbench) -> None:
    tiny.selection.select_expert(1, 2, "ffn_moe_out-1")
    tiny.verbs.switch_off()
    (one,) = tiny.chat.edits.value.edits
    assert (one.edit.site, one.edit.value, one.edit.channels) == ("ffn_moe_logits", NEVER, (2, 3))
    tiny.verbs.scale()
    assert words(tiny.chat.edits.value.edits[1]) == "layer 1 · expert 2 × 0.5"


@pytest.mark.parametrize("head", [None, 1])
def test_what_is_taken_are_the_numbers_before_the_other_answer(
    head: int | None, tiny: Workbench, tiny_path: Path, until: Until
) -> None:
    chat = tiny.chat
    ask(tiny, until, "the hat")
    ask(tiny, until, "on the mat")
    sources = tiny.verbs.sources()
    assert [question for _, question in sources] == ["the hat"]
    if head is None:
        tiny.selection.select_layer(1)
    else:
        tiny.selection.select_head(1, head)
    tiny.verbs.take(sources[0][0])
    until(lambda: not tiny.verbs.taking)
    assert tiny.verbs.problem == ""
    (one,) = chat.edits.value.edits
    assert (one.edit.op, one.edit.positions, one.name) == ("set", "last", "the hat")
    (sent,) = chat.edits.request(chat.edits.value.active)
    with load(tiny_path, device="host", ctx=256) as model:
        name = "l_out-1" if head is None else "kqv_out-1"
        found = model.dump([{"role": "user", "content": "the hat"}], name)
    row = np.asarray(found[f"{name}#0@0"][-1]).reshape(-1)
    if head is not None:
        size = len(row) // 4
        row = row[size * head : size * (head + 1)]
    np.testing.assert_array_equal(np.frombuffer(sent.vector, "<f4"), row)
    ask(tiny, until, "then a thing")
    assert chat.path[-1].edits.edits == (one,)


def test_a_vector_of_texts_is_saved_opened_and_used(
    tiny: Workbench, tiny_path: Path, tmp_path: Path, until: Until
) -> None:
    steering = tiny.steering
    steering.make(["the hat is on", "one thing"], ["the other is", "then a thing on"], "hats",
                  chat=False)  # fmt: skip
    assert steering.running
    until(lambda: not steering.running)
    assert steering.problem == ""
    made = steering.vector
    assert made is not None
    with load(tiny_path, device="host", ctx=256) as model:
        rows = [
            [model.dump(text, r"l_out-1")["l_out-1#0@0"][-1] for text in side]
            for side in (["the hat is on", "one thing"], ["the other is", "then a thing on"])
        ]
    wanted = np.mean(rows[0], 0, np.float64) - np.mean(rows[1], 0, np.float64)
    np.testing.assert_allclose(made.directions[1], wanted, rtol=1e-5, atol=1e-5)
    path = tmp_path / "hats.gguf"
    steering.save(path)
    until(lambda: steering.notice or steering.problem)
    assert steering.notice == "Saved as hats.gguf."
    assert list(read_directions(path)) == [1, 2]
    assert list(tmp_path.glob("*.part")) == []
    steering.open(path)
    until(lambda: steering.vector is not made)
    assert steering.vector is not None
    assert steering.vector.name == "hats"
    assert steering.use(2.0, [1])
    assert words(tiny.chat.edits.value.edits[0]) == "layer 1 + 2 × “hats”"
    assert not steering.use(2.0, [9])
    assert "layers" in steering.problem
    ask(tiny, until, "the mat")


def test_texts_that_do_not_pair_or_do_not_differ_are_refused(tiny: Workbench, until: Until) -> None:
    steering = tiny.steering
    steering.make(["a"], [], "v")
    assert "there are 1 and 0" in steering.problem
    steering.make(["the hat"], ["the hat"], "v")
    until(lambda: not steering.running)
    assert steering.problem == "Both sides give the same results: the texts must differ."
    steering.make(["the hat"] * 50, ["the mat"] * 50, "v")
    steering.cancel()
    assert not steering.running
    assert steering.vector is None
    ask(tiny, until, "the mat")


def test_a_slider_acts_while_an_answer_is_written(tiny: Workbench, until: Until) -> None:
    """The message keeps where each value began, and a request made of it says the same again."""
    chat = tiny.chat
    hash, data = pack({1: np.linspace(-1, 1, 64, dtype=np.float32)})
    steer = ChatEdit(Edit("residual", [1], "add", value=5.0), hash, "v")
    chat.edits.add(steer, {hash: data})
    chat.details.set_limits(structs.replace(chat.details.limits, max_tokens=120, stop_loops=False))
    assert chat.send("the hat")
    until(lambda: chat.path[-1].n_tokens >= 4)
    edit = structs.replace(steer.edit, value=-40.0)
    chat.edits.put(0, structs.replace(steer, edit=edit), sliding=True)
    until(lambda: chat.path[-1].edits.moves or not chat.busy)
    until(lambda: not chat.busy)
    message = chat.path[-1]
    (move,) = message.edits.moves
    assert (move.edit, move.value) == (0, -40.0)
    assert 4 <= move.at - move.n_prompt < message.n_tokens
    assert message.edits.edits == (steer,)
    first, second = chat.edits.of(message)
    assert (first.positions, first.value) == (f"0:{move.at}", 5.0)
    assert (second.positions, second.value) == (f"{move.at}:", -40.0)
    text, number = message.text, chat.chat_id
    chat.open(None)
    chat.open(number)
    assert chat.path[-1].edits == message.edits
    assert chat.answer_edited(1, message.edits, 120)
    until(lambda: not chat.busy)
    assert chat.path[-1].text == text


def test_a_word_of_an_edited_answer_is_looked_at_with_its_edits(
    tiny: Workbench, until: Until
) -> None:
    tiny.selection.select_head(1, 0)
    tiny.verbs.switch_off()
    ask(tiny, until, "the hat")
    message = tiny.chat.path[-1]
    question = tiny.token.questions_of_chat.of(Word(message.id, 0, ""))
    assert question is not None
    assert question[1].edits == [Edit.scale("heads", 1, by=0, head=0)]
    tiny.chat.edits.clear()
    ask(tiny, until, "the mat")
    question = tiny.token.questions_of_chat.of(Word(tiny.chat.path[-1].id, 0, ""))
    assert question is not None
    assert question[1].edits == []
