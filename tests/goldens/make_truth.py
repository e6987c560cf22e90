"""Makes the goldens of the two real models: `<model>-context.npz` and `<model>-perplexity.npz`.

    python -m tests.goldens.make_truth smollm2 SmolLM2-135M-Instruct.Q4_1.gguf
    python -m tests.goldens.make_truth gemma3 gemma-3-270m-Q4_K_M.gguf

Needs torch, transformers and llama-cpp-python. It takes a few minutes and 4 GiB, and prints how
well the float32 run and llama.cpp agree.

`-context`: one context of 2,048 tokens of `text.txt`, float32 reference.
    tokens      int32 [T]         BOS first where the file adds one
    sketch      float32 [T, 64]   see tests/truth/compare.py
    square      float64 [T]       sum of the squares of the logits
    logsumexp   float32 [T]
    top_ids     int32 [T, 16]     most likely first
    top_logits  float32 [T, 16]
    exact_at    int32 [n]         positions whose logits are kept whole
    exact       float16 [n, V]    (rounding: NMSE below 1e-7)
`-perplexity`: the whole text in chunks of 512, scored at 256..510, as llama.cpp's own tool does.
    tokens      int32 [chunks, 512]       as tokenised; in evaluation BOS goes over each first token
                                          where the file adds one
    ids         int32 [chunks, 255, 64]   llama.cpp's, most likely first
    logp        float16 [chunks, 255, 64] natural logarithms (rounding: below 1e-4 in p ln p)
    nll         float32 [chunks, 255]     llama.cpp's -ln p of the token that follows
    f32_top     int32 [chunks, 255]       the float32 run's most likely id
    f32_kl      float32 [chunks, 255]     KL(llama.cpp || float32) by tests.truth.compare.kl,
                                          64 ids of each
    f32_nll     float32 [chunks, 255]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from tests.goldens.peer import Peer
from tests.goldens.reference import load_reference, logit_blocks
from tests.truth.compare import kl, projection

Arrays = dict[str, np.ndarray]

HERE = Path(__file__).parent
CONTEXT = 2048
CHUNK = 512
SCORED = range(CHUNK // 2, CHUNK - 1)
EXACT = {"smollm2": [700, 2047], "gemma3": [2047]}


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """ln of the sum of exponentials of each row, in float64: [T, V] -> [T]."""
    peak = logits.max(axis=1, keepdims=True)
    return np.log(np.exp(logits - peak).sum(axis=1, dtype=np.float64)) + peak[:, 0]


def top(logits: np.ndarray, count: int) -> np.ndarray:
    """Ids of the `count` largest of each row, largest first: [T, V] -> int32 [T, count]."""
    found = np.argpartition(logits, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(logits, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1).astype(np.int32)


def context_golden(model: PreTrainedModel, tokens: np.ndarray, exact_at: list[int]) -> Arrays:
    """One long context through the float32 reference."""
    parts: dict[str, list[np.ndarray]] = {}
    for start, logits in logit_blocks(model, tokens.tolist()):
        ids = top(logits, 16)
        kept = [p - start for p in exact_at if 0 <= p - start < len(logits)]
        found = {
            "sketch": projection(logits),
            "square": (logits.astype(np.float64) ** 2).sum(axis=1),
            "logsumexp": log_sum_exp(logits).astype(np.float32),
            "top_ids": ids,
            "top_logits": np.take_along_axis(logits, ids, axis=1),
            "exact": logits[kept].astype(np.float16),
        }
        for name, array in found.items():
            parts.setdefault(name, []).append(array)
    arrays = {name: np.concatenate(blocks) for name, blocks in parts.items()}
    return {"tokens": tokens, "exact_at": np.array(exact_at, np.int32), **arrays}


def distributions(
    logits: np.ndarray, following: np.ndarray, count: int = 64
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids, logp, nll of the following tokens) of the scored positions of one chunk."""
    total = log_sum_exp(logits)
    ids = top(logits, count)
    logp = np.take_along_axis(logits, ids, axis=1) - total[:, None]
    nll = total - np.take_along_axis(logits, following[:, None], axis=1)[:, 0]
    return ids, logp.astype(np.float32), nll.astype(np.float32)


def perplexity_golden(model: PreTrainedModel, peer: Peer, tokens: np.ndarray) -> Arrays:
    """All whole chunks of the text through llama.cpp and the float32 reference."""
    chunks = tokens[: len(tokens) // CHUNK * CHUNK].reshape(-1, CHUNK)
    parts: dict[str, list[np.ndarray]] = {}
    for chunk in chunks:
        evaluated = chunk.copy()
        if peer.bos is not None:
            evaluated[0] = peer.bos
        following = chunk[SCORED.start + 1 : SCORED.stop + 1]
        ids, logp, nll = distributions(peer.logits(evaluated.tolist(), SCORED), following)
        ((_, logits),) = logit_blocks(model, evaluated.tolist(), SCORED)
        f32_ids, f32_logp, f32_nll = distributions(logits, following)
        logp = logp.astype(np.float16)
        found = {
            "ids": ids,
            "logp": logp,
            "nll": nll,
            "f32_top": f32_ids[:, 0],
            "f32_kl": kl(ids, logp, f32_ids, f32_logp).astype(np.float32),
            "f32_nll": f32_nll,
        }
        for name, array in found.items():
            parts.setdefault(name, []).append(array)
    return {"tokens": chunks, **{name: np.stack(each) for name, each in parts.items()}}


def report(golden: Arrays) -> str:
    """The float32 run against llama.cpp, in one line."""
    same = (golden["f32_top"] == golden["ids"][..., 0]).mean()
    theirs, f32 = np.exp(golden["nll"].mean()), np.exp(golden["f32_nll"].mean())
    return (
        f"{len(golden['tokens'])} chunks, float32 and llama.cpp: same top token {same:.2%}, "
        f"KL {golden['f32_kl'].mean():.5f}, perplexity {f32:.4f} and {theirs:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(EXACT))
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_reference(args.model)
    peer = Peer(args.model, CHUNK, args.threads)
    tokens = peer.tokenize((HERE / "text.txt").read_bytes())
    perplexity = perplexity_golden(model, peer, tokens)
    peer.close()
    print(report(perplexity))
    np.savez_compressed(HERE / f"{args.name}-perplexity.npz", **perplexity)
    context = context_golden(model, tokens[:CONTEXT], EXACT[args.name])
    np.savez_compressed(HERE / f"{args.name}-context.npz", **context)


if __name__ == "__main__":
    main()
