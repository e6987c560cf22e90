"""Makes the goldens of the tiny models: python -m tests.goldens.make_tiny [NAME ...]

Needs torch and transformers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.goldens.reference import load_reference, logit_blocks
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny

HERE = Path(__file__).parent


def main() -> None:
    for architecture in sys.argv[1:] or ARCHITECTURES:
        tokens = tiny_tokens(architecture)
        with TemporaryDirectory() as folder:
            path = write_tiny(Path(folder) / "tiny.gguf", architecture)
            ((_, logits),) = logit_blocks(load_reference(path), tokens.tolist())
        np.savez_compressed(HERE / f"tiny-{architecture}.npz", tokens=tokens, logits=logits)


if __name__ == "__main__":
    main()
