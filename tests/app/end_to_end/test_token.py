"""How a word came to be, with the real model and the real engine: what is seen is what is told."""

from pathlib import Path
from queue import Queue
from typing import Any

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.presets import AnswerLimits
from app.views.talk.message import MessageView
from app.views.token.section import percent, place
from app.views.token.token import TokenView
from app.widgets.markdown.view import MarkdownView
from engine.protocol import Examine, Examined, Progress, Sampling
from engine.settings import EngineOptions
from tests.app.end_to_end.person import Person, place_of

pytestmark = [pytest.mark.model_file, pytest.mark.device]

QUESTION = "What is the capital of France?"
LONG = Path(__file__).parents[2] / "goldens" / "text.txt"


def again(person: Person) -> Examined:
    """What the engine tells somebody else who asks the same about the word."""
    heard: Queue[Any] = Queue()
    client = person.bench.engine.join(heard.put)
    question = person.bench.token.questions_of_chat.of(person.bench.token.word)
    assert question is not None
    number = client.send(msgspec.structs.replace(question[1], record=False))
    while True:
        reply = heard.get(timeout=60)
        if getattr(reply, "id", 0) == number and not isinstance(reply, Progress):
            client.leave()
            assert isinstance(reply, Examined), reply
            return reply


def click(view: MarkdownView, word: str) -> None:
    """Click in the middle of a word that is shown."""
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=place_of(view, word))
    QApplication.processEvents()


def body(person: Person, row: int) -> MarkdownView:
    shown = person.window.talk.chat.column.require(row)
    assert isinstance(shown, MessageView)
    assert shown.body is not None
    return shown.body


def known(person: Person) -> None:
    """Wait until all is told of the word."""
    token = person.bench.token
    person.wait(lambda: token.inside is not None and token.inside.step is not None)
    person.look()


def test_what_is_seen_of_a_word_is_what_the_engine_tells(person: Person) -> None:
    bench, token = person.bench, person.bench.token
    person.window.panes.show_tab("token")
    view = person.window.inspector.view(TokenView)
    bench.chat.details.set_sampling(Sampling(temperature=0))
    assert bench.chat.send(QUESTION)
    person.wait(lambda: not bench.chat.busy)
    known(person)
    answer, tokens = bench.chat.path[1], bench.chat.tokens(1)
    assert token.word is not None
    assert token.word.key == (answer.id, len(tokens) - 1), "the newest, without a click"

    click(body(person, 1), "Paris")
    index = next(n for n in range(len(tokens)) if "Paris" in tokens[n].text)
    assert bench.selection.now.token == (answer.id, index)
    known(person)
    told = again(person)
    assert told.lens is not None
    assert told.attention is not None

    ranks = np.frombuffer(told.lens.rank, "<i4").tolist()
    chances = np.exp(np.frombuffer(told.lens.wanted_logp, "<f4"))
    rows = view.lens_rows()[1:]
    assert [row[3] for row in rows] == [place(rank) for rank in ranks]
    assert [row[4] for row in rows] == [percent(float(share)) for share in chances]
    assert ranks[-1] == 1
    assert exp_of(tokens[index].logprob) == pytest.approx(chances[-1], rel=2e-3)

    mean = np.frombuffer(told.attention.mean, "<f4")
    assert view.attention.list.lines[0].share == pytest.approx(mean[0], rel=1e-3)
    places = told.n_context - index  # of the prompt; behind it lie the answer's own tokens
    spans = {(tokens.start(n), tokens.end(n)): places + n for n in range(index)}
    lit = token.lights(answer.id)
    assert lit
    strengths = np.array([light[2] for light in lit])
    shares = np.array([mean[spans[light[:2]]] for light in lit])  # a span of no token fails here
    assert strengths / strengths.max() == pytest.approx(np.sqrt(shares / shares.max()), rel=1e-2)
    words = {word for word, _ in body(person, 1).lit_words}
    assert words <= {tokens[n].text.strip() for n in range(index)}
    asked = {word for word, _ in body(person, 0).lit_words}
    assert asked <= {"What", "is", "the", "capital", "of", "France", "?"}
    assert "France" in asked


def exp_of(logprob: float | None) -> float:
    return float(np.exp(logprob if logprob is not None else 0.0))


def test_the_rows_of_a_head_are_lit_and_sum_to_one(person: Person) -> None:
    bench, token = person.bench, person.bench.token
    person.window.panes.show_tab("token")
    bench.chat.details.set_sampling(Sampling(temperature=0))
    assert bench.chat.send(QUESTION)
    person.wait(lambda: not bench.chat.busy)
    bench.selection.select_token(bench.chat.path[1].id, 3)
    known(person)
    bench.selection.select_head(12, 4)
    person.wait(lambda: token.sources is not None and token.head == 4)
    assert token.sources is not None
    told = again(person)
    assert told.attention is not None
    full = np.frombuffer(told.attention.rows[12], "<f4").reshape(9, -1)
    assert token.sources.weights == pytest.approx(full[4], abs=1e-5)
    assert float(token.sources.weights.sum()) == pytest.approx(1, abs=1e-3)
    sources, lines = token.sources, person.window.inspector.view(TokenView).attention.list.lines
    assert sources.first + sources.in_template + sum(
        float(sources.weights[source.item]) for source in sources.listed(500)
    ) == pytest.approx(1, abs=1e-3)
    assert lines[0].share == pytest.approx(full[4, 0], abs=1e-5)


def test_a_word_of_the_question_is_looked_at_by_a_click(person: Person) -> None:
    bench, token = person.bench, person.bench.token
    person.window.panes.show_tab("token")
    bench.chat.details.set_sampling(Sampling(temperature=0))
    assert bench.chat.send(QUESTION)
    person.wait(lambda: not bench.chat.busy)
    click(body(person, 0), "France")
    question = bench.chat.path[0]
    person.wait(lambda: bench.selection.now.token == (question.id, 5))
    known(person)
    assert token.word is not None
    assert token.word.text == " France"
    assert body(person, 0).pointed_text.strip() == "France"
    told = again(person)
    assert told.lens is not None
    assert token.inside is not None
    assert token.inside.lens is not None
    assert token.inside.lens.rank.tolist() == np.frombuffer(told.lens.rank, "<i4").tolist()
    assert {word for word, _ in body(person, 0).lit_words} <= {"What", "is", "the", "capital", "of"}
    request = token.questions_of_chat.of(token.word)
    assert request is not None
    assert isinstance(request[1], Examine)
    assert request[1].at == told.n_context


@pytest.mark.full
def test_layers_with_a_window_see_no_farther_than_it(
    person: Person, gemma3_path: Path, expected: list[str]
) -> None:
    """Beyond 512 tokens of a long message."""
    expected.append("no chat template")
    bench, token = person.bench, person.bench.token
    bench.open_model(gemma3_path, EngineOptions(ctx=1024))
    person.wait(lambda: bench.session.status == "ready" and bench.session.path == gemma3_path)
    person.run("chat.new")
    person.window.panes.show_tab("token")
    view = person.window.inspector.view(TokenView)
    bench.chat.details.set_sampling(Sampling(temperature=0))
    bench.chat.details.set_limits(AnswerLimits(max_tokens=4))
    assert bench.chat.send(LONG.read_text("utf-8")[:3000])
    person.wait(lambda: not bench.chat.busy)
    question, answer = bench.chat.path
    bench.selection.select_token(answer.id, 2)
    known(person)
    inside, parts = token.inside, token.parts
    assert inside is not None
    assert inside.context is not None
    assert inside.attention is not None
    assert parts is not None
    attention, n, window = inside.attention, inside.n_context, 512
    assert parts.window == window
    assert n > window + 40
    assert attention.layers == [*range(18)]
    for layer in attention.layers:
        rows = attention.rows[layer]
        np.testing.assert_allclose(rows.sum(1), 1, atol=1e-5)
        seen = rows.any(0)
        assert seen[n - window :].all()
        assert seen[: n - window].any() == (layer % 6 == 5), layer  # those see all

    first = inside.context.part(n - window)
    assert first is not None
    for layer in (0, 16):
        bench.selection.select_layer(layer)
        person.wait(lambda layer=layer: token.layer == layer and token.sources is not None)
        person.look()
        lit = token.lights(question.id)
        assert lit
        assert min(start for start, _, _ in lit) >= first.first
        assert view.attention.list.lines[0] == ("First token", 0.0, None)
    bench.selection.select_layer(5)
    person.wait(lambda: token.layer == 5 and token.sources is not None)
    person.look()
    assert view.attention.list.lines[0].share > 0
