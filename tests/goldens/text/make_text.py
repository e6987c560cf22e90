"""Makes the files and goldens of the table of text models:

    LLAMA_CPP=FOLDER python -m tests.goldens.text.make_text [ROW ...]

FOLDER is llama.cpp's source, which `pip download --no-binary :all: llama-cpp-python` brings along.
Needs torch and transformers. Of each row `ROW.gguf.xz`, and in `ROW.npz` ids [2, 96] and the
float32 logits [2, 96, V] of the class.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.goldens.text.convert import convert  # first: it says which gguf is imported
from tests.goldens.text.randomise import randomise
from tests.goldens.text.recipe import Recipe, T, V, recipes

HERE = Path(__file__).parent
PACKED = {"preset": 9 | lzma.PRESET_EXTREME}


def make(row: str, recipe: Recipe) -> str:
    """Writes both files; tells how large they are and how peaked attention is."""
    torch.set_default_dtype(torch.float32)
    kind = getattr(transformers, recipe.model)
    settings = recipe.settings
    attention = settings.pop("attn_implementation")
    if recipe.around is not None:
        settings = {"text_config": settings, "tie_word_embeddings": False, **recipe.around}
    config = kind.config_class(**settings)
    config._attn_implementation = attention
    model = kind(config).eval()
    randomise(model, recipe.peaked, recipe.seed)
    ids = torch.randint(3, V, (2, T), generator=torch.Generator().manual_seed(recipe.seed))
    with torch.no_grad():
        cached = {} if recipe.encodes or recipe.ranks else {"use_cache": False}
        seen = model(input_ids=ids, output_attentions=True, **cached)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        if recipe.swapped:
            swap(Path(folder) / "model.safetensors", recipe.swapped)
        if recipe.renamed:
            rename(Path(folder) / "model.safetensors", recipe.renamed)
        out = Path(folder) / "made.gguf"
        convert(Path(folder), out, recipe)
        data = out.read_bytes()
    packed = lzma.compress(data, **PACKED)
    (HERE / f"{row}.gguf.xz").write_bytes(packed)
    logits = (seen.last_hidden_state if recipe.encodes else seen.logits).numpy()
    np.savez_compressed(HERE / f"{row}.npz", ids=ids.numpy().astype(np.int32), logits=logits)
    attentions = getattr(seen, "attentions", None) or ()
    peak = [a.max(-1).values[..., 48:].mean() for a in attentions if a is not None]
    shown = " ".join(f"{float(p):.2f}" for p in peak)
    return (
        f"{row}: {len(data)} bytes, packed {len(packed)}; logits of std {logits.std():.2f};"
        f" the largest weight of a late token's attention, by layer: {shown or 'none'}"
    )


def swap(saved: Path, part: str) -> None:
    """Swaps the last two axes of matrices with this in their names."""
    tensors = {
        name: t.transpose(-1, -2).contiguous() if part in name and t.dim() > 1 else t
        for name, t in load_file(saved).items()
    }
    save_file(tensors, saved, {"format": "pt"})


def rename(saved: Path, parts: Mapping[str, str]) -> None:
    """Gives parts of tensors' names others."""
    tensors = {}
    for name, values in load_file(saved).items():
        for part, other in parts.items():
            name = name.replace(part, other)
        tensors[name] = values
    save_file(tensors, saved, {"format": "pt"})


def main() -> None:
    """All rows, or those that are named."""
    known = recipes()
    for row in sys.argv[1:] or known:
        print(make(row, known[row]), flush=True)  # noqa: T201  a command for people


if __name__ == "__main__":
    main()
