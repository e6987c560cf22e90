"""Makes row_edits.npz: python -m tests.goldens.make_row_edits. Needs torch and transformers.

Logits of tiny models of the table of text models (experts, a recurrent and a latent-attention
architecture) while forward hooks of torch change what modules give: float32 [3, V] of the last
three of 24 tokens, for each operation at each site of layer 1.
"""

from __future__ import annotations

import lzma
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.goldens.make_edits import LAYER, N_TOKENS, ROWS, operations

HERE = Path(__file__).parent
WIDTH = 32
SITES = {
    "qwen3moe": ("residual", "attention", "feed_forward", "heads"),
    "deepseek_v2": ("residual", "attention", "feed_forward", "heads"),
    "mamba": ("residual", "attention"),
    "lfm2": ("residual", "attention", "feed_forward"),
}
OPS = ("set", "constant", "add", "scale", "project", "hold", "swap")


def model_of(row: str) -> Any:
    """The row's model, with its weights."""
    import torch
    import transformers

    from tests.goldens.text.randomise import randomise
    from tests.goldens.text.recipe import recipes

    torch.set_default_dtype(torch.float32)
    recipe = recipes()[row]
    kind = getattr(transformers, recipe.model)
    settings = recipe.settings
    attention = settings.pop("attn_implementation")
    config = kind.config_class(**settings)
    config._attn_implementation = attention
    model = kind(config).eval()
    randomise(model, recipe.peaked, recipe.seed)
    with torch.no_grad():
        take_convolutions(row, model)
    return model


def take_convolutions(row: str, model: Any) -> None:
    """Take the weights that were drawn on top of torch's own, which no seed repeats."""
    import gguf
    import torch

    with TemporaryDirectory() as folder:
        path = Path(folder) / "row.gguf"
        path.write_bytes(lzma.decompress((HERE / "text" / f"{row}.gguf.xz").read_bytes()))
        tensors = {one.name: torch.tensor(one.data) for one in gguf.GGUFReader(path).tensors}
    inner = getattr(model, "model", None) or model.backbone
    for i, layer in enumerate(inner.layers):
        if hasattr(layer, "mixer"):
            mixer = layer.mixer
            mixer.conv1d.weight[:, 0] = tensors[f"blk.{i}.ssm_conv1d.weight"]
            mixer.conv1d.bias[:] = tensors[f"blk.{i}.ssm_conv1d.bias"]
            mixer.dt_proj.bias[:] = tensors[f"blk.{i}.ssm_dt.bias"]
        elif hasattr(layer, "conv"):
            layer.conv.conv.weight[:, 0] = tensors[f"blk.{i}.shortconv.conv.weight"]


def modules(model: Any) -> dict[str, Any]:
    """The module of each site."""
    inner = getattr(model, "model", None) or model.backbone
    layer = inner.layers[LAYER]
    if hasattr(layer, "mixer"):
        return {"residual": layer, "attention": layer.mixer}
    mixer = layer.conv if hasattr(layer, "conv") else layer.self_attn
    fed = layer.feed_forward if hasattr(layer, "feed_forward") else layer.mlp
    found = {"residual": layer, "attention": mixer, "feed_forward": fed}
    return found | ({"heads": mixer.o_proj} if hasattr(mixer, "o_proj") else {})


def main() -> None:
    import torch

    made = {}
    for row, sites in SITES.items():
        model = model_of(row)
        with np.load(HERE / "text" / f"{row}.npz") as stored:
            ids = torch.tensor(stored["ids"][:1], dtype=torch.long)
            expected = stored["logits"][0]

        def logits(ids: Any = ids, model: Any = model) -> np.ndarray:
            with torch.no_grad():
                return model(input_ids=ids[:, :N_TOKENS], use_cache=False).logits[0].numpy()

        off = float(np.abs(logits() - expected[:N_TOKENS]).max())
        assert off < 1e-4, (row, off)
        known = modules(model)
        for site in sites:
            width = known[site].in_features if site == "heads" else WIDTH
            for op, change in operations(width).items():
                if op not in OPS:
                    continue

                def after(_: Any, given: Any, out: Any, change: Any = change) -> Any:
                    return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

                def before(_: Any, given: Any, change: Any = change) -> Any:
                    return (change(given[0]), *given[1:])

                if site == "heads":
                    hook = known[site].register_forward_pre_hook(before)
                else:
                    hook = known[site].register_forward_hook(after)
                made[f"{row} {site} {op}"] = logits()[-ROWS:].copy()
                hook.remove()
    np.savez_compressed(HERE / "row_edits.npz", **made)


if __name__ == "__main__":
    main()
