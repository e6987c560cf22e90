"""Files that are read but not run: what they are, so that a refusal can say it."""

from engine.errors import UnsupportedModel
from engine.gguf import GGUFFile
from engine.gguf.projectors import is_projector

_KINDS = (
    ("an encoder-decoder model like T5", "t5 t5encoder"),
    (
        "a diffusion language model",
        "dream llada llada-moe rnd1 diffusion-gemma",
    ),
    ("an RWKV model", "rwkv6 rwkv6qwen2 rwkv7 arwkv7"),
    ("a model of speech", "wavtokenizer-dec qwen3tts pockettts talkie"),
    ("a draft model for speculative decoding", "eagle3 dflash gemma4-assistant"),
    (
        "a server-size model with sparse attention",
        "deepseek32 deepseek4 glm-dsa glm5-next kimi-linear kimi-k3 minimax-m3 hy_v4",
    ),
    ("an experimental architecture", "qwen4exp"),
)
KINDS = {name: what for what, names in _KINDS for name in names.split()}
"""What architectures are that another way of computing keeps out, by `general.architecture`."""

FIRST_EXPERT = "blk.0.ffn_gate.0.weight"
"""As early files of Mixtral have them."""


def unsupported(arch: str, supported: list[str]) -> UnsupportedModel:
    """The refusal of an architecture that has no module."""
    return UnsupportedModel("architecture", arch, supported, KINDS.get(arch, ""))


def check(file: GGUFFile, supported: list[str]) -> None:
    """Raises `UnsupportedModel` for a file that is no model of its own."""
    if is_projector(file):
        what = "an image projector; open the language model in the same folder, which loads it too"
        raise UnsupportedModel("architecture", "clip", supported, what)
    if file.metadata.get("general.type", str, "") == "adapter":
        kind = file.metadata.get("adapter.type", str, "lora")
        what = "a LoRA adapter; merge it into its model and open that"
        raise UnsupportedModel("adapter", kind, supported, what)
    if FIRST_EXPERT in file.tensors:
        what = "a file from before April 2024; convert or download the model again"
        layouts = ["experts of a layer in one tensor (ffn_gate_exps)"]
        raise UnsupportedModel("an expert in a tensor of its own,", FIRST_EXPERT, layouts, what)
