"""Makes `adapter.npz`: what llama.cpp computes with a LoRA adapter on the tiny llama model.

    python -m tests.goldens.make_adapter

Needs llama-cpp-python. `logits` float32 [8, 320] behind every fifth of the tiny tokens, with the
adapter of `tests.adapters.write_pair`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.adapters import PEER_EACH, PEER_SCALE, write_pair
from tests.goldens.peer import Peer
from tests.goldens.tiny import TOKENS, tiny_tokens

HERE = Path(__file__).parent


def main() -> None:
    """Write the file."""
    with TemporaryDirectory() as folder:
        model, adapter = write_pair(Path(folder))
        peer = Peer(model, TOKENS, exact=True, lora={adapter: PEER_SCALE})
        logits = peer.logits(tiny_tokens("llama").tolist(), range(TOKENS))
        peer.close()
    np.savez_compressed(HERE / "adapter.npz", logits=logits[PEER_EACH - 1 :: PEER_EACH])


if __name__ == "__main__":
    main()
