"""Perplexity over keys and values in q4_0, held against llama.cpp's over the same types.

`PEER` is llama.cpp's (llama-cpp-python 0.3.36, flash attention, type_k = type_v = q4_0) of the same
files and tokens: the golden text in two runs of 2048 tokens, each scored from 1024 on.
"""

from pathlib import Path

import numpy as np
import pytest

from engine.runner import load
from tests.truth.measure import GOLDENS

PEER = {"smollm2": 15.350, "gemma3": 18.259}
"""14.517 and 16.364 over f16."""

RUN = 2048


@pytest.mark.full
@pytest.mark.device
@pytest.mark.model_file
@pytest.mark.parametrize("name", PEER)
def test_perplexity_over_four_bits(name: str, request: pytest.FixtureRequest) -> None:
    """At most 1 % above."""
    path: Path = request.getfixturevalue(f"{name}_path")
    tokens = np.load(GOLDENS / f"{name}-perplexity.npz")["tokens"].reshape(-1)
    lost = []
    with load(path, ctx=RUN, kv="q4_0") as model:
        for run in (tokens[:RUN], tokens[RUN : 2 * RUN]):
            for start, rows in model.loaded.stepper.all_logits(run.tolist(), RUN // 2):
                scored = min(len(rows), RUN - 1 - start)
                scores = rows[:scored].astype(np.float64)
                scores -= scores.max(axis=1, keepdims=True)
                chosen = scores[np.arange(scored), run[start + 1 : start + 1 + scored]]
                lost.append(np.log(np.exp(scores).sum(axis=1)) - chosen)
    perplexity = float(np.exp(np.concatenate(lost).mean()))
    assert perplexity < 1.01 * PEER[name]
