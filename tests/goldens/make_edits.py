"""Makes edits.npz: python -m tests.goldens.make_edits. Needs torch and transformers.

Logits of tiny models while forward hooks of torch change what modules give: float32 [3, V] of the
last three of 24 tokens, for each operation at each of the four sites of layer 1. Vectors are those
of `vectors`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.goldens.tiny import Draws, tiny_tokens, write_tiny

HERE = Path(__file__).parent
MODELS, N_TOKENS, ROWS, LAYER, N_HEADS = ("llama", "gemma3"), 24, 3, 1, 4
SITES = ("residual", "attention", "feed_forward", "heads")


def vectors(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Two directions, float32 [width]."""
    draws = Draws(7)
    return draws.uniform(width).astype(np.float32), draws.uniform(width).astype(np.float32)


def operations(width: int) -> dict[str, Callable[[Any], Any]]:
    """Functions of activations [..., width], by name."""
    import torch

    d, e = (torch.tensor(one) for one in vectors(width))
    unit, size = d / d.norm(), width // N_HEADS
    p = torch.linalg.pinv(torch.stack([d, e], 1).double()).float()

    def channels(x: Any) -> Any:
        y = x.clone()
        y[..., 3], y[..., 40] = x[..., 40], x[..., 3]
        return y

    def head(x: Any) -> Any:
        y = x.clone()
        y[..., 2 * size : 3 * size] *= 0.25
        return y

    return {
        "set": lambda x: (0.5 * d).expand_as(x),
        "constant": lambda x: torch.full_like(x, -0.75),
        "add": lambda x: x + 1.5 * d,
        "scale": lambda x: 0.5 * x,
        "project": lambda x: x - 0.8 * (x @ unit)[..., None] * unit,
        "hold": lambda x: x + (2.0 - x @ unit)[..., None] * unit,
        "swap": lambda x: x + (x @ (p[1] - p[0]))[..., None] * (d - e),
        "channels": channels,
        "head": head,
    }


def main() -> None:
    from tests.goldens.reference import load_reference, logit_blocks

    logits = {}
    for name in MODELS:
        tokens = tiny_tokens(name)[:N_TOKENS].tolist()
        with TemporaryDirectory() as folder:
            model = load_reference(write_tiny(Path(folder) / "tiny.gguf", name))
        layer = model.model.layers[LAYER]
        modules = {"residual": layer, "attention": layer.self_attn, "feed_forward": layer.mlp}
        if name == "gemma3":
            modules["attention"] = layer.post_attention_layernorm
            modules["feed_forward"] = layer.post_feedforward_layernorm
        for site in SITES:
            wide = layer.self_attn.o_proj if site == "heads" else layer.mlp.gate_proj
            for op, change in operations(wide.in_features).items():
                if op == "head" and site != "heads":
                    continue

                def after(_: Any, given: Any, out: Any, change: Any = change) -> Any:
                    return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

                def before(_: Any, given: Any, change: Any = change) -> Any:
                    return (change(given[0]), *given[1:])

                if site == "heads":
                    hook = layer.self_attn.o_proj.register_forward_pre_hook(before)
                else:
                    hook = modules[site].register_forward_hook(after)
                (_, rows), *_ = logit_blocks(model, tokens)
                logits[f"{name} {site} {op}"] = rows[-ROWS:].copy()
                hook.remove()

        def moved(_: Any, given: Any, kwargs: Any, out: Any) -> Any:
            entered = given[0] if given else kwargs["hidden_states"]
            first = out[0] if isinstance(out, tuple) else out
            changed = entered + 0.5 * (first - entered)
            return (changed, *out[1:]) if isinstance(out, tuple) else changed

        hook = layer.register_forward_hook(moved, with_kwargs=True)
        (_, rows), *_ = logit_blocks(model, tokens)
        logits[f"{name} residual delta"] = rows[-ROWS:].copy()
        hook.remove()
    np.savez_compressed(HERE / "edits.npz", **logits)


if __name__ == "__main__":
    main()
