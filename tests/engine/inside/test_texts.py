"""Two texts against each other: rows of the same tokens, and as far apart as their dumps are."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadSetting, Cancelled
from engine.gguf.formats import F32
from engine.graph.tensor import Role, leaf
from engine.inside import texts
from engine.inside.texts import by_token, compare_texts, largest_error, paired
from engine.models.axes import CountedAxis, counts_tokens
from engine.protocol import (
    ComparedText,
    CompareTexts,
    Load,
    PairedResult,
    ResultPart,
    TextsCompared,
)
from engine.runner import load
from engine.runner.api import Model
from engine.settings import EngineOptions
from engine.worker import Worker

HAT = "the hat on the heath is red"
CAT = "the hat of a cat is red"


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", ctx=128) as model:
        yield model


def compared(
    model: Model, a: str, b: str, numbers: tuple[str, int] | None = None
) -> tuple[TextsCompared, list[np.ndarray]]:
    request = CompareTexts(1, ComparedText(prompt=a), ComparedText(prompt=b), numbers)
    *told, last = compare_texts(model.loaded, model.conversation, request, lambda: False)
    assert isinstance(last, TextsCompared)
    assert model.conversation.items == []
    parts = [one for one in told if isinstance(one, ResultPart)]
    assert [part.info.step for part in parts] == ([0, 1] if numbers else [])
    found = [np.frombuffer(p.data, "<f4").reshape(p.info.dims[::-1]) for p in parts]
    return last, found


def row(told: TextsCompared, name: str, occurrence: int = 0) -> PairedResult:
    return next(r for r in told.rows if (r.name, r.occurrence) == (name, occurrence))


def test_pairs_are_of_the_beginning_and_of_the_end() -> None:
    a, b = [1, 2, 3, 4, 5, 6], [1, 2, 9, 5, 6]
    assert paired(a, b, 32) == [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)]
    assert paired(b, a, 3) == [(2, 3), (3, 4), (4, 5)]
    assert paired(a, a, 32) == [(i, i) for i in range(6)]
    assert paired([1, 2], [1, 2, 3], 32) == [(0, 0), (1, 1)]
    assert paired([1], [2, 3], 32) == [(0, 1)]


def test_rows_of_what_has_several_for_each_token() -> None:
    """As the results of experts may be: [E, experts x tokens], one token's side by side."""
    node = leaf("x", F32, (2, 6), Role.INPUT)
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    rows = by_token(values, node, {node: [CountedAxis(1, 3, counts_tokens)]})
    assert rows is not None
    assert rows.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert by_token(values, node, {}) is None


def test_results_are_as_far_apart_as_their_dumps(model: Model) -> None:
    """Against the numbers that a dump gives of each text alone, in float64."""
    told, _ = compared(model, HAT, CAT)
    pairs = [(pair.place, pair.other_place) for pair in told.pairs]
    assert "".join(pair.text for pair in told.pairs).startswith("the hat o")
    begun = next(i for i, pair in enumerate(told.pairs) if pair.text != pair.other_text)
    names = ["embd", "attn_norm-0", "Vcur-1", "l_out-1", "result_output"]
    both = [model.dump(text, *names) for text in (HAT, CAT)]
    for name in [n for n in names if f"{n}#0@0" in both[0]]:
        a, b = (each[f"{name}#0@0"].astype(np.float64) for each in both)
        found = row(told, name)
        if name == "result_output":
            assert found.first_pair == len(pairs) - 1
            a, b = a[-1:], b[-1:]
        else:
            assert found.first_pair == 0
            a = a[[place for place, _ in pairs]].reshape(len(pairs), -1)
            b = b[[other for _, other in pairs]].reshape(len(pairs), -1)
        a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
        wanted = ((b - a) ** 2).sum(axis=1) / (a**2).sum(axis=1)
        np.testing.assert_allclose(np.frombuffer(found.errors, "<f4"), wanted, 1e-3, 1e-5)
        assert found.error == pytest.approx(((b - a) ** 2).sum() / (a**2).sum(), rel=1e-3)
        cosine = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
        assert found.cosine == pytest.approx(cosine, abs=1e-3)
        if name != "result_output":
            assert (np.frombuffer(found.errors, "<f4")[:begun] < 1e-9).all(), "the same so far"
            at = [n for n, pair in enumerate(told.pairs) if pair.text != pair.other_text]
            assert (np.frombuffer(found.errors, "<f4")[at] > 1e-3).all()
    assert told.first is not None
    most = [np.frombuffer(r.errors, "<f4").max(initial=0) for r in told.rows]
    assert max(most[: told.first], default=0) <= texts.DIFFERS < most[told.first]


def test_a_massive_activation_hides_nothing() -> None:
    """One token a thousand times as large as the others, and the same in both."""
    a = np.ones((3, 4), np.float32)
    a[0] = 1e4
    b = a.copy()
    b[2] += 0.5
    errors = np.square(b - a).sum(axis=1) / np.square(a).sum(axis=1)
    row = PairedResult("x", 0, 0, "host", 0, 1e-9, 1.0, errors.astype("<f4").tobytes(), b"")
    assert largest_error(row) == pytest.approx(0.25)
    assert largest_error(PairedResult("x", 0, 0, "host", 0, None, None, b"", b"")) == 0


def test_a_text_and_itself(model: Model) -> None:
    told, _ = compared(model, HAT, HAT)
    assert told.first is None
    assert len(told.rows) > 20
    assert all(r.error == 0 and r.cosine in (0, pytest.approx(1)) for r in told.rows)
    assert all(pair.place == pair.other_place for pair in told.pairs)


def test_numbers_of_a_result(model: Model) -> None:
    told, (a, b) = compared(model, HAT, CAT, ("l_out-1", 0))
    dumped = [model.dump(text, "l_out-1")["l_out-1#0@0"] for text in (HAT, CAT)]
    np.testing.assert_allclose(a, dumped[0][[p.place for p in told.pairs]], 1e-3, 1e-4)
    np.testing.assert_allclose(b, dumped[1][[p.other_place for p in told.pairs]], 1e-3, 1e-4)


def test_of_long_texts_the_last_tokens(model: Model) -> None:
    """What is before them is read and not compared; the numbers are those of the whole text."""
    long, other = (n * "and so on " + HAT for n in (5, 3))
    told, _ = compared(model, long, other)
    assert len(told.pairs) <= texts.MOST_TOKENS
    assert all(pair.place > 0 for pair in told.pairs)
    both = [model.dump(text, "ffn_out-1")["ffn_out-1#0@0"] for text in (long, other)]
    a = both[0][[p.place for p in told.pairs]].astype(np.float64)
    b = both[1][[p.other_place for p in told.pairs]].astype(np.float64)
    wanted = ((b - a) ** 2).sum() / (a**2).sum()
    assert row(told, "ffn_out-1").error == pytest.approx(wanted, rel=1e-3)


def test_where_probes_have_too_little_room_fewer_tokens(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = compared(model, HAT, CAT)
    monkeypatch.setattr("engine.scheduler.probed.RING_BYTES", 1 << 16)
    told, _ = compared(model, HAT, CAT)
    assert 0 < len(told.pairs) < len(whole.pairs)
    assert told.pairs == whole.pairs[-len(told.pairs) :]
    assert row(told, "l_out-2").errors


def test_it_can_be_stopped_and_says_what_is_too_short(model: Model) -> None:
    request = CompareTexts(1, ComparedText(prompt=HAT), ComparedText(prompt=CAT))
    with pytest.raises(Cancelled):
        list(compare_texts(model.loaded, model.conversation, request, lambda: True))
    nothing = CompareTexts(1, ComparedText(prompt=HAT), ComparedText())
    with pytest.raises(BadSetting, match="some text"):
        list(compare_texts(model.loaded, model.conversation, nothing, lambda: False))


def test_over_the_pipe(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), EngineOptions(device="host", ctx=64)))
    asked = CompareTexts(
        worker.new_id(), ComparedText(prompt=HAT), ComparedText(prompt=CAT), ("embd", 0)
    )
    *parts, last = worker.run(asked)
    assert isinstance(last, TextsCompared)
    assert {p.info.step for p in parts if isinstance(p, ResultPart)} == {0, 1}
