"""Tokens come as often with drafts as without, whatever is drafted: 20,000 draws each."""

from pathlib import Path

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
DRAWS, K = 20_000, 4
SAMPLING = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def rows(tokens: list[int], n_vocab: int) -> np.ndarray:
    """Logits [t, V] after each of these."""
    found = np.full((len(tokens), n_vocab), -1e4, np.float32)
    for row, token in zip(found, tokens, strict=True):
        row[list(TOKENS)] = np.log(CHAIN[token - TOKENS[0]])
    return found


def counts(path: Path, kind: str | None) -> np.ndarray:
    """How often each token came after each, and how often that after it: [3, 3, 3]."""
    random = np.random.default_rng(1)
    drawn = [TOKENS[0]]
    with load(path, device="host", ctx=256) as model:
        built = model.loaded.built
        request = Generate(1, prompt_tokens=[20], sampling=SAMPLING, endless=True)
        answer = RunningAnswer(model.loaded, request, lambda: False)
        list(answer.enter(Sequenced(model.loaded.stepper)))
        answer.limit = 2 * DRAWS
        list(answer.take(answer.pending[:], rows(drawn, built.n_vocab)[0]))
        drawn += answer.pending
        while len(drawn) < DRAWS:
            answer.sequence.items.clear()
            part, draft = answer.pending[:], []
            if kind is not None:
                expected = answer.drawing.sampler._random.bit_generator.state
                draft = foreseen(answer, drawn[-1], built.n_vocab)
                answer.drawing.sampler._random.bit_generator.state = expected
                wrong = KINDS[kind]
                draft = [
                    int(random.choice([t for t in TOKENS if t != token])) if wrong(i) else token
                    for i, token in enumerate(draft)
                ]
            logits = rows([*part, *draft], built.n_vocab)
            before = len(answer.drawing._seen)
            answer.take_drafted(part, Draft(draft, "test"), logits)
            drawn += answer.drawing._seen[before:]
    found = np.zeros((3, 3, 3))
    at = np.array(drawn) - TOKENS[0]
    np.add.at(found, (at[:-2], at[1:-1], at[2:]), 1)
    return found


def foreseen(answer: RunningAnswer, last: int, n_vocab: int) -> list[int]:
    """The tokens that will be drawn."""
    found: list[int] = []
    for _ in range(K):
        (row,) = rows([found[-1] if found else last], n_vocab)
        found.append(answer.drawing.sampler.sample(row, []))
    return found


def p_value(counts: np.ndarray, others: np.ndarray) -> float:
    """Of chi-square for two rows of counts, by Wilson and Hilferty."""
    table = np.stack([counts.ravel(), others.ravel()])
    wanted = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    statistic, free = float(((table - wanted) ** 2 / wanted).sum()), table.shape[1] - 1
    z = ((statistic / free) ** (1 / 3) - (1 - 2 / (9 * free))) / np.sqrt(2 / (9 * free))
    return float(0.5 * np.exp(-(z**2) / 2)) if z > 3 else 0.5 * (1 - float(np.tanh(0.8 * z)))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["wrong", "right", "half"])
def test_three_tokens_come_as_often(tiny_path: Path, kind: str) -> None:
    assert p_value(counts(tiny_path, kind), counts(tiny_path, None)) > 0.01


def test_the_statistic_finds_a_lossy_rule() -> None:
    """Had every third draft been taken unseen, it would show."""
    random = np.random.default_rng(2)
    flat = (CHAIN[:, :, None] * CHAIN[None]).ravel()
    right = random.multinomial(DRAWS, flat / flat.sum()).astype(float)
    again = random.multinomial(DRAWS, flat / flat.sum()).astype(float)
    lossy = flat * np.where(np.arange(27) % 3 == 0, 1.15, 1)
    other = random.multinomial(DRAWS, lossy / lossy.sum()).astype(float)
    assert p_value(right, again) > 0.01 > p_value(right, other)
