"""What sampling removed, and the text of a context."""

from pathlib import Path

import numpy as np
import pytest

from engine.inside.token.choice import choice
from engine.inside.token.context import as_held, context_items
from engine.protocol import Examine, Load, Sampling, StepRecord
from engine.runner import load
from engine.runner.sequence import Sequenced
from engine.sampling.sampler import Sampler
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker
from tests.engine.inside.token import oracle


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return np.asarray(weights / weights.sum())


def test_each_step_against_its_definition() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 3, 500).astype(np.float32)
    history = [int(logits.argmax()), 3, 3]
    params = Sampling(0.5, 30, 0.9, 0.1, repeat_penalty=1.5, seed=1)
    found = choice(logits, history, params, 7, str)
    ids = [one.token for one in found.top]
    assert ids == [*np.argsort(-logits, kind="stable")[:20].tolist(), 7]
    raw = softmax(logits.astype(np.float64))
    np.testing.assert_allclose([one.logprob for one in found.top], np.log(raw[ids]), atol=1e-5)
    scores = logits.astype(np.float64)
    for i in set(history):
        scores[i] = scores[i] * 1.5 if scores[i] <= 0 else scores[i] / 1.5
    left = np.arange(500)
    want = [("model", logits.astype(np.float64), left), ("penalties", scores, left)]
    left = np.argsort(-scores, kind="stable")[:30]
    want.append(("top_k", scores, left))
    total = np.cumsum(softmax(scores[left]))
    left = left[: int((total < 0.9).sum()) + 1]
    want.append(("top_p", scores, left))
    left = left[scores[left] >= scores[left[0]] + np.log(0.1)]
    want += [("min_p", scores, left), ("temperature", scores / 0.5, left)]
    before, shares = np.arange(500), raw
    for step, (name, values, kept) in zip(found.steps, want, strict=True):
        gone = shares[[i for i, token in enumerate(before) if token not in set(kept.tolist())]]
        assert (step.name, step.n_left) == (name, len(kept))
        assert abs(step.removed - gone.sum()) < 1e-6
        before, shares = kept, softmax(values[kept])
        assert abs(step.entropy + (shares * np.log(shares)).sum()) < 1e-6
        exact = dict(zip(kept.tolist(), shares.tolist(), strict=True))
        np.testing.assert_allclose(step.probabilities, [exact.get(i, 0.0) for i in ids], atol=1e-6)
    sampler = Sampler(params)
    drawn = [sampler.sample(logits, history) for _ in range(3000)]
    shown = dict(zip(ids, found.steps[-1].probabilities, strict=True))
    assert all(abs(drawn.count(i) / 3000 - p) < 0.04 for i, p in shown.items())


def test_the_text_of_items_and_where_each_ends(tiny_path: Path) -> None:
    with load(tiny_path, device="host", ctx=32) as model:
        tokenizer = model.loaded.tokenizer
        ids = tokenizer.encode("a é<|im_end|>🦀b")
        found = context_items(tokenizer, ids, ())
        ends = np.frombuffer(found.ends, "<i4").tolist()
        assert found.text == tokenizer.decode(ids, special=True)
        assert np.frombuffer(found.ids, "<i4").tolist() == ids
        crab = found.text.index("🦀")
        assert [ends[-1], ends[-2], ends[-3]] == [crab + 2, crab + 1, crab + 1]
        assert ends.count(crab + 1) == len("🦀".encode())
        assert ends == sorted(ends)
        cut = context_items(tokenizer, ids[:-2], ())
        assert cut.text == found.text[:crab] + "\ufffd"
        assert np.frombuffer(cut.ends, "<i4").tolist()[-3:] == [crab + 1] * 3


@pytest.mark.parametrize("gap", [1, 5, 17])
def test_a_gap_in_what_is_held(gap: int) -> None:
    items = [(i * i + 3 * i) % 97 for i in range(120)]
    held = [*items[:9], *items[9 + gap :]]
    for n in (len(held), len(held) - 3):
        assert as_held(items, held[:n]) == held
    assert as_held(items, items[:50]) is None
    assert as_held(items, [*items[:9], *[-1] * 20]) is None


def test_through_the_engines_process(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), EngineOptions(device="host", ctx=64)))
    asked = Examine(
        worker.new_id(),
        prompt="some text",
        at=3,
        lens=True,
        attention_layers=[1],
        sampling=Sampling(),
        record=True,
    )
    found = worker.get(asked)
    with load(tiny_path, device="host", ctx=64) as model:
        here = oracle.look(model, Sequenced(model.loaded.stepper), asked)
    assert found.items == here.items
    assert found.attention == here.attention
    assert found.choice is not None
    assert found.lens == here.lens
    assert isinstance(found.step, StepRecord)
    with pytest.raises(RemoteError, match="at: 99"):
        worker.get(Examine(worker.new_id(), prompt="some text", at=99))
