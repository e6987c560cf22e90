"""Makes autoencoders.npz: python -m tests.goldens.make_autoencoders. Needs torch, transformers and
sae_lens.

Autoencoders of the tiny llama with random weights, of each kind of SAELens, saved by SAELens, and
what it makes of the `clean` tokens of make_patches: by kind `KIND/cfg` and `KIND/weights` (its
files, as bytes), `KIND/activations` [12, 24] and `KIND/made` [12, 64], the reconstruction.
`residual-N` and `feed_forward-1` [12, 64] are the model's results as transformers computes them.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.goldens.make_patches import prompts
from tests.goldens.tiny import Draws, E, write_tiny

HERE = Path(__file__).parent
N = 24
AFTER, BEFORE, OUT = "blocks.1.hook_resid_post", "blocks.1.hook_resid_pre", "blocks.1.hook_mlp_out"
KINDS: dict[str, dict[str, Any]] = {
    "standard": {},
    "standard-untied": {"apply_b_dec_to_input": False},
    "standard-layer_norm": {"normalize_activations": "layer_norm"},
    "standard-constant": {"normalize_activations": "constant_norm_rescale"},
    "jumprelu": {},
    "topk": {"k": 5},
    "gated": {},
    "gated-layer_norm": {"normalize_activations": "layer_norm"},
    "transcoder": {},
    "transcoder-layer_norm": {"normalize_activations": "layer_norm"},
    "skip_transcoder": {},
    "jumprelu_transcoder": {},
    "jumprelu_skip_transcoder": {},
}


def results(tokens: list[int]) -> dict[str, np.ndarray]:
    """What leaves layers 0 and 1, and what the feed-forward of layer 1 adds: float32 [T, E]."""
    import torch

    from tests.goldens.reference import load_reference

    with TemporaryDirectory() as folder:
        model = load_reference(write_tiny(Path(folder) / "tiny.gguf", "llama"))
    added: list[Any] = []
    model.model.layers[1].mlp.register_forward_hook(lambda _, __, out: added.append(out))
    with torch.no_grad():
        found = model(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False)
    made = {f"residual-{i}": found.hidden_states[i + 1][0].numpy() for i in (0, 1)}
    return made | {"feed_forward-1": added[0][0].numpy()}


def made(name: str, options: dict[str, Any], draws: Draws) -> Any:
    """An autoencoder of SAELens; its weights fit in float16, so that the file stays small."""
    import torch
    from sae_lens import SAE

    kind = name.partition("-")[0]
    config = {"architecture": kind, "d_in": E, "d_sae": N, **options}
    config["metadata"] = {"hook_name": AFTER}
    if "transcoder" in kind:
        config |= {"d_out": E, "apply_b_dec_to_input": False}
        config["metadata"] = {"hook_name": BEFORE, "hook_name_out": OUT}
    sae = SAE.from_dict(config)
    gains = {"threshold": 0.5, "b_dec": 0.25, "W_skip": 0.1}
    with torch.no_grad():
        for key, values in sorted(sae.named_parameters()):
            drawn = draws.uniform(*values.shape) * gains.get(key, 0.5)
            drawn = np.abs(drawn) if key == "threshold" else drawn
            values.copy_(torch.from_numpy(drawn.astype(np.float16).astype(np.float32)))
    return sae


def main() -> None:
    import torch

    held = results(prompts()[0])
    arrays: dict[str, Any] = dict(held)
    draws = Draws(11)
    for name, options in KINDS.items():
        sae = made(name, options, draws)
        rows = torch.from_numpy(held["residual-0" if "transcoder" in name else "residual-1"])
        with torch.no_grad(), TemporaryDirectory() as folder:
            sae.save_model(folder)
            for key, file in (("cfg", "cfg.json"), ("weights", "sae_weights.safetensors")):
                data = (Path(folder) / file).read_bytes()
                arrays[f"{name}/{key}"] = np.frombuffer(data, np.uint8)
            activations = sae.encode(rows)
            arrays[f"{name}/activations"] = activations.numpy()
            whole = sae(rows) if "skip" in name else sae.decode(activations)
            arrays[f"{name}/made"] = whole.numpy()
        print(name, (activations > 0).sum(dim=1).tolist())
    np.savez_compressed(HERE / "autoencoders.npz", **arrays)


if __name__ == "__main__":
    main()
