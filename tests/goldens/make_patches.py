"""Makes patches.npz: python -m tests.goldens.make_patches. Needs torch and transformers.

A tiny model's logits of two tokens after 12 `corrupt` tokens while forward hooks of torch put
results of the `clean` tokens' run there, one at a time: float32 [3, 12, 2] of each layer and
position for what leaves a layer and what attention and feed-forward add, [3, 4, 2] of each layer
and head at all positions. `answers` are the two tokens, `runs` [2, 2] their logits without patches.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.goldens.tiny import tiny_tokens, write_tiny

HERE = Path(__file__).parent
N_LAYERS, N_TOKENS, N_HEADS = 3, 12, 4


def prompts() -> tuple[list[int], list[int]]:
    """Tokens that differ at two positions."""
    ids = tiny_tokens("llama")
    clean = ids[:N_TOKENS].tolist()
    corrupt = list(clean)
    corrupt[3], corrupt[7] = int(ids[20]), int(ids[21])
    return clean, corrupt


def main() -> None:
    import torch

    from tests.goldens.reference import load_reference

    with TemporaryDirectory() as folder:
        model = load_reference(write_tiny(Path(folder) / "tiny.gguf", "llama"))
    clean, corrupt = prompts()
    held: dict[tuple[str, int], Any] = {}

    def logits(tokens: list[int]) -> np.ndarray:
        with torch.no_grad():
            return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].numpy()

    def site(layer: int, name: str) -> Any:
        own = model.model.layers[layer]
        return {"residual": own, "attention": own.self_attn, "feed_forward": own.mlp}[name]

    def first(out: Any) -> Any:
        return out[0] if isinstance(out, tuple) else out

    names = ("residual", "attention", "feed_forward")
    hooks = []
    for layer in range(N_LAYERS):
        for name in names:

            def keep(_: Any, given: Any, out: Any, key: Any = (name, layer)) -> None:
                held[key] = first(out).clone()

            hooks.append(site(layer, name).register_forward_hook(keep))

        def keep_heads(_: Any, given: Any, key: Any = ("heads", layer)) -> None:
            held[key] = given[0].clone()

        projection = model.model.layers[layer].self_attn.o_proj
        hooks.append(projection.register_forward_pre_hook(keep_heads))
    whole = logits(clean)
    for hook in hooks:
        hook.remove()
    plain = logits(corrupt)
    apart = whole - plain
    answers = np.array([apart.argmax(), apart.argmin()])
    made: dict[str, Any] = {"answers": answers, "runs": np.stack([whole, plain])[:, answers]}
    for name in names:
        table = np.zeros((N_LAYERS, N_TOKENS, 2), np.float32)
        for layer, at in np.ndindex(N_LAYERS, N_TOKENS):

            def put(_: Any, given: Any, out: Any, key: Any = (name, layer), at: Any = at) -> Any:
                changed = first(out).clone()
                changed[:, at] = held[key][:, at]
                return (changed, *out[1:]) if isinstance(out, tuple) else changed

            hook = site(layer, name).register_forward_hook(put)
            table[layer, at] = logits(corrupt)[answers]
            hook.remove()
        made[name] = table
    made["heads"] = np.zeros((N_LAYERS, N_HEADS, 2), np.float32)
    for layer, head in np.ndindex(N_LAYERS, N_HEADS):
        projection = model.model.layers[layer].self_attn.o_proj
        size = projection.in_features // N_HEADS
        part = slice(head * size, (head + 1) * size)

        def put_head(_: Any, given: Any, key: Any = ("heads", layer), part: Any = part) -> Any:
            changed = given[0].clone()
            changed[..., part] = held[key][..., part]
            return (changed, *given[1:])

        hook = projection.register_forward_pre_hook(put_head)
        made["heads"][layer, head] = logits(corrupt)[answers]
        hook.remove()
    np.savez_compressed(HERE / "patches.npz", **made)


if __name__ == "__main__":
    main()
