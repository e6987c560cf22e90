"""llama.cpp's converter, called in process. `LLAMA_CPP` names its folder, as its source has it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ.get("LLAMA_CPP", "."))
# Before `gguf` is imported: the converter needs the one that comes with it.
sys.path[:0] = [str(SOURCE), str(SOURCE / "gguf-py")]

import gguf  # noqa: E402

from tests.goldens.text.recipe import Recipe, V  # noqa: E402
from tests.goldens.text.vocabulary import write_vocabulary  # noqa: E402


def convert(folder: Path, out: Path, recipe: Recipe) -> None:
    """A saved model to a GGUF file of float32 tensors with a vocabulary of single characters.

    The converter knows tokenizers by their hash, so it is given none.
    """
    from conversion import get_model_class

    config_path = folder / "config.json"
    config = recipe.edit(json.loads(config_path.read_text()))
    config_path.write_text(json.dumps(config))
    # Some count the tokens that this has.
    tokenizer = {"model": {"vocab": {str(i): i for i in range(V)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    for name, content in recipe.beside.items():
        (folder / name).write_text(json.dumps(content))
    kind = get_model_class(config["architectures"][0])
    more: dict[str, Any] = dict(recipe.convert)
    kind.no_mtp = more.pop("no_mtp", False)
    if recipe.hparams:
        more["hparams"] = config
    for name in [name for name in more if hasattr(kind, name)]:
        setattr(kind, name, more.pop(name))  # what its command line sets
    converter = kind(folder, gguf.LlamaFileType.ALL_F32, out, eager=True, **more)
    inner = getattr(converter, "impl", converter)
    inner.set_vocab = lambda: write_vocabulary(inner.gguf_writer)
    converter.write()
