"""Tokens come as often with drafts as without, whatever is drafted: 20,000 draws each."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.protocol import Generate, Sampling
from engine.runner.answering.answer import RunningAnswer
from engine.runner.api import load
from engine.runner.drafting.drafts import Draft
from engine.runner.sequence import Sequenced
from tests.engine.runner.drafting.scripted import KINDS

TOKENS = (20, 21, 22)
CHAIN = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.45, 0.45]])
"""Chances of each of the three tokens after each of them."""
DRAWS = 20_000
SAMPLING = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def rows(tokens: list[int], n_vocab: int) -> np.ndarray:
    """Logits [t, V] after each of these."""
    found = np.full((len(tokens), n_vocab), -1e4, np.float32)
    for row, token in zip(found, tokens, strict=True):
        row[list(TOKENS)] = np.log(CHAIN[token - TOKENS[0]])
    return found


def counts(path: Path, kind: str | None, seed: int) -> np.ndarray:
    """How often each three tokens came after a fourth: [3, 3, 3]."""
    random = np.random.default_rng(seed)
    found = np.zeros((3, 3, 3))
    with load(path, device="host", ctx=256) as model:
        n_vocab = model.loaded.built.n_vocab
        sampling = msgspec.structs.replace(SAMPLING, seed=seed)
        request = Generate(1, prompt_tokens=[TOKENS[0]], sampling=sampling, endless=True)
        answer = RunningAnswer(model.loaded, request, lambda: False)
        list(answer.enter(Sequenced(model.loaded.stepper)))
        answer.limit = 9 * DRAWS
        answer.to_read, answer.n_drawn = 0, 1
        for _ in range(DRAWS):
            drawn: list[int] = []
            answer.pending = [TOKENS[0]]
            while len(drawn) < 3:
                answer.sequence.items.clear()
                draft = [] if kind is None else foreseen(answer, 2 - len(drawn), n_vocab)
                draft = [
                    int(random.choice([t for t in TOKENS if t != token]))
                    if kind and KINDS[kind](len(drawn) + i)
                    else token
                    for i, token in enumerate(draft)
                ]
                before = len(answer.drawing.seen)
                logits = rows([*answer.pending, *draft], n_vocab)
                answer.take_drafted(answer.pending[:], Draft(draft, "test"), logits)
                drawn += answer.drawing.seen[before:]
            found[tuple(np.array(drawn) - TOKENS[0])] += 1
    return found


@pytest.fixture(scope="module")
def plain(tiny_path: Path) -> np.ndarray:
    """Draws without drafts."""
    return counts(tiny_path, None, 3)


def foreseen(answer: RunningAnswer, n: int, n_vocab: int) -> list[int]:
    """The next tokens that will be drawn."""
    random = answer.drawing.sampler._random.bit_generator
    state, found = random.state, list(answer.pending)
    for _ in range(n):
        found.append(answer.drawing.sampler.sample(rows(found[-1:], n_vocab)[0], []))
    random.state = state
    return found[1:]


def p_value(counts: np.ndarray, others: np.ndarray) -> float:
    """Of chi-square for two rows of counts, by Wilson and Hilferty."""
    table = np.stack([counts.ravel(), others.ravel()])
    wanted = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    statistic, free = float(((table - wanted) ** 2 / wanted).sum()), table.shape[1] - 1
    z = ((statistic / free) ** (1 / 3) - (1 - 2 / (9 * free))) / np.sqrt(2 / (9 * free))
    return float(0.5 * np.exp(-(z**2) / 2)) if z > 3 else 0.5 * (1 - float(np.tanh(0.8 * z)))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["wrong", "right", "half"])
def test_three_tokens_come_as_often(tiny_path: Path, plain: np.ndarray, kind: str) -> None:
    assert p_value(counts(tiny_path, kind, 2), plain) > 0.01


def test_the_statistic_finds_a_lossy_rule() -> None:
    """Had every third draft been taken unseen, it would show."""
    random = np.random.default_rng(2)
    flat = (CHAIN[:, :, None] * CHAIN[None]).ravel()
    right = random.multinomial(DRAWS, flat / flat.sum()).astype(float)
    again = random.multinomial(DRAWS, flat / flat.sum()).astype(float)
    lossy = flat * np.where(np.arange(27) % 3 == 0, 1.15, 1)
    other = random.multinomial(DRAWS, lossy / lossy.sum()).astype(float)
    assert p_value(right, again) > 0.01 > p_value(right, other)
