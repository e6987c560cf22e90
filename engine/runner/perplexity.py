"""Perplexity by llama-perplexity's convention, and the likeliest tokens at each scored position.

The text is tokenised once and cut into whole chunks; where the file adds a BOS, it takes the place
of each chunk's first token in evaluation; positions ctx/2 to ctx-2 predict the token after them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled
from engine.protocol import Edit
from engine.runner.edits import edits_for
from engine.runner.stepper import Logits, Stepper
from engine.sampling.cuts import log_softmax, top_k
from engine.tokenizer import Tokenizer


@dataclass
class Score:
    """Negative log-likelihoods so far, and where wanted the best tokens of each position."""

    tokens: NDArray[np.int32]  # [chunks, ctx]
    nll: list[float]
    ids: list[NDArray[np.int32]]
    logp: list[NDArray[np.float32]]

    @property
    def perplexity(self) -> float:
        """exp of the mean."""
        return exp(float(np.mean(self.nll)))

    @property
    def error(self) -> float:
        """Standard error of the perplexity."""
        n = len(self.nll)
        return self.perplexity * sqrt(float(np.var(self.nll)) / max(1, n - 1))


Scored = tuple[int, int, Score]
"""Chunks done, chunks, and the score so far."""


def score(
    stepper: Stepper,
    tokenizer: Tokenizer,
    text: str,
    n_ctx: int,
    n_best: int,
    cancelled: Callable[[], bool],
) -> Iterator[Scored]:
    """After each chunk. Raises `BadSetting`, `Cancelled`."""
    parts = score_in_parts(stepper, tokenizer, text, n_ctx, n_best, cancelled)
    return (scored for scored in parts if scored is not None)


def score_in_parts(
    stepper: Stepper,
    tokenizer: Tokenizer,
    text: str,
    n_ctx: int,
    n_best: int,
    cancelled: Callable[[], bool],
    sequence: int = 0,
    edits: Sequence[Edit] = (),
) -> Iterator[Scored | None]:
    """Like `score`, in a sequence that is empty afterwards; None where others may compute
    meanwhile, behind each step.
    """
    if not 0 <= n_best <= stepper.built.n_vocab:
        raise BadSetting("top_k", n_best, f"0 to the vocabulary of {stepper.built.n_vocab}")
    chunks = chunked(stepper, tokenizer, text, n_ctx)
    n_chunks = len(chunks)
    made = edits_for(stepper.built, edits, n_ctx)
    result = Score(chunks, [], [], [])
    try:
        for i, chunk in enumerate(chunks):
            evaluated = as_evaluated(tokenizer, chunk)
            for start, logits in stepper.all_logits(evaluated, n_ctx // 2, sequence, made):
                _add(result, chunk, start, logits, n_best)
                yield None
                if cancelled():
                    raise Cancelled("scoring")
            yield i + 1, n_chunks, result
    finally:
        stepper.forget(0, sequence=sequence)


def chunked(stepper: Stepper, tokenizer: Tokenizer, text: str, n_ctx: int) -> NDArray[np.int32]:
    """The whole chunks [chunks, ctx] of a text. Raises `BadSetting`."""
    if not 8 <= n_ctx <= stepper.built.n_ctx:
        raise BadSetting("ctx", n_ctx, f"8 to the model's context of {stepper.built.n_ctx}")
    ids = tokenizer.encode(text, parse_special=False)
    n_chunks = len(ids) // n_ctx
    if n_chunks < 1:
        raise BadSetting("text", f"{len(ids)} tokens", f"at least one chunk of {n_ctx} tokens")
    return np.asarray(ids[: n_chunks * n_ctx], np.int32).reshape(n_chunks, n_ctx)


def as_evaluated(tokenizer: Tokenizer, chunk: NDArray[np.int32]) -> list[int]:
    """Tokens of a chunk as they are computed: the first one is BOS if the file adds one."""
    evaluated: list[int] = chunk.tolist()
    if tokenizer.add_bos and tokenizer.bos is not None:
        evaluated[0] = tokenizer.bos
    return evaluated


def _add(result: Score, chunk: NDArray[np.int32], start: int, logits: Logits, n_best: int) -> None:
    n = min(len(logits), len(chunk) - 1 - start)
    for row, following in zip(logits[:n], chunk[start + 1 : start + 1 + n], strict=True):
        best = top_k(row, n_best).ids if n_best else np.empty(0, np.int64)
        logp = log_softmax(row, np.append(best, following))
        result.nll.append(-float(logp[-1]))
        if n_best:
            result.ids.append(best.astype(np.int32))
            result.logp.append(logp[:-1].astype(np.float32))
