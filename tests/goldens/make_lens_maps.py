"""Makes lens_maps.npz: python -m tests.goldens.make_lens_maps. Needs torch, transformers and
transformer_lens.

Logits of two tokens of the tiny llama (without rope factors, which TransformerLens has no name for)
after the `corrupt` tokens of make_patches, as TransformerLens' own patching functions put results
of the `clean` run there: float32 [3, 12, 2] of layer and position for `residual` (what enters a
layer: our layer before), `attention` and `feed_forward`, [3, 4, 2] of layer and head for `heads`.
`answers` are the two tokens, `runs` [2, 2] their logits without patches.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.goldens.make_patches import prompts
from tests.goldens.tiny import write_tiny

HERE = Path(__file__).parent


def write_plain(path: Path) -> Path:
    """The tiny llama, all of whose rotation pairs turn at their usual speed."""
    return write_tiny(path, "llama", tensors={"rope_freqs.weight": np.ones(8, np.float32)})


def hooked(path: Path) -> Any:
    """The file in TransformerLens, its weights not processed."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions import convert_llama_weights

    from tests.goldens.reference import load_reference

    model = load_reference(path)
    own = model.config
    config = HookedTransformerConfig(
        n_layers=own.num_hidden_layers,
        d_model=own.hidden_size,
        n_ctx=own.max_position_embeddings,
        d_head=own.head_dim,
        n_heads=own.num_attention_heads,
        n_key_value_heads=own.num_key_value_heads,
        d_mlp=own.intermediate_size,
        d_vocab=own.vocab_size,
        act_fn="silu",
        eps=own.rms_norm_eps,
        normalization_type="RMS",
        positional_embedding_type="rotary",
        rotary_dim=own.head_dim,
        rotary_base=10000,
        rotary_adjacent_pairs=False,
        final_rms=True,
        gated_mlp=True,
        original_architecture="LlamaForCausalLM",
        device="cpu",
    )
    made = HookedTransformer(config)
    made.load_and_process_state_dict(
        convert_llama_weights(model, config),
        fold_ln=False,
        center_writing_weights=False,
        center_unembed=False,
        fold_value_biases=False,
    )
    return made


def main() -> None:
    import torch
    from transformer_lens import patching

    with TemporaryDirectory() as folder:
        model = hooked(write_plain(Path(folder) / "tiny.gguf"))
    clean, corrupt = (torch.tensor([tokens]) for tokens in prompts())
    with torch.no_grad():
        logits, cache = model.run_with_cache(clean)
        runs = torch.stack([logits[0, -1], model(corrupt)[0, -1]]).numpy()
        apart = runs[0] - runs[1]
        answers = np.array([apart.argmax(), apart.argmin()])
        made: dict[str, Any] = {"answers": answers, "runs": runs[:, answers]}
        functions = {
            "residual": patching.get_act_patch_resid_pre,
            "attention": patching.get_act_patch_attn_out,
            "feed_forward": patching.get_act_patch_mlp_out,
            "heads": patching.get_act_patch_attn_head_out_all_pos,
        }
        for name, function in functions.items():
            tables = [
                function(model, corrupt, cache, lambda found, i=i: found[0, -1, i]).numpy()
                for i in answers.tolist()
            ]
            made[name] = np.stack(tables, axis=-1)
    np.savez_compressed(HERE / "lens_maps.npz", **made)


if __name__ == "__main__":
    main()
