"""Files that are read but not run: what they are, so that a refusal can say it."""

from engine.errors import UnsupportedModel
from engine.gguf import GGUFFile
from engine.gguf.projectors import is_projector

_KINDS = (
    ("a model of text to text with an encoder, of the kind of T5", "t5 t5encoder"),
    (
        "a diffusion model, which fills in a text instead of continuing it",
        "dream llada llada-moe rnd1 diffusion-gemma",
    ),
    ("an RWKV model", "rwkv6 rwkv6qwen2 rwkv7 arwkv7"),
    ("a model of speech", "wavtokenizer-dec qwen3tts pockettts talkie"),
    ("a draft for another model, and none of its own", "eagle3 dflash gemma4-assistant"),
    (
        "a model for servers, whose attention picks its cells",
        "deepseek32 deepseek4 glm-dsa glm5-next kimi-linear kimi-k3 minimax-m3 hy_v4",
    ),
    ("an experiment", "qwen4exp"),
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
        what = "an image projector; open the language model beside it, which takes it along"
        raise UnsupportedModel("architecture", "clip", supported, what)
    if file.metadata.get("general.type", str, "") == "adapter":
        kind = file.metadata.get("adapter.type", str, "lora")
        what = "changes to another model; merge them into it, and open that"
        raise UnsupportedModel("adapter", kind, supported, what)
    if FIRST_EXPERT in file.tensors:
        what = "a file of before April 2024; convert or download the model anew"
        layouts = ["experts of a layer in one tensor (ffn_gate_exps)"]
        raise UnsupportedModel("an expert in a tensor of its own,", FIRST_EXPERT, layouts, what)
