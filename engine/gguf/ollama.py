"""Files that Ollama converted itself, read under the names that llama.cpp's converter gives.

Ollama's own engine has other names for some architectures, keys and tensors, and leaves out what it
knows by heart. What a file holds stays as it is; only what it is called changes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.gguf.metadata import Metadata, MetadataEntry
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import ValueType

Tensors = Mapping[str, TensorInfo]
Added = Callable[[Metadata], Mapping[str, MetadataEntry]]

GEMMA3_SCALED = (34, 48, 62)
"""Blocks of the Gemma 3 models whose global layers stretch their positions by 8."""


def _nothing(metadata: Metadata) -> Mapping[str, MetadataEntry]:
    return {}


def _text(value: str) -> MetadataEntry:
    return MetadataEntry(ValueType.STRING, memoryview(value.encode()))


def _gemma3(metadata: Metadata) -> Mapping[str, MetadataEntry]:
    if metadata.get("block_count", int, 0) not in GEMMA3_SCALED:
        return {}
    return {
        "gemma3.rope.scaling.type": _text("linear"),
        "gemma3.rope.scaling.factor": MetadataEntry(ValueType.FLOAT32, 8.0),
    }


def _gptoss(metadata: Metadata) -> Mapping[str, MetadataEntry]:
    return {"gptoss.rope.scaling.type": _text("yarn")}


def _qwen35(metadata: Metadata) -> Mapping[str, MetadataEntry]:
    key = f"{metadata.architecture}.ssm.v_head_reordered"
    return {key: MetadataEntry(ValueType.BOOL, False)}


def _gemma4(metadata: Metadata) -> Mapping[str, MetadataEntry]:
    pieces = metadata.get("tokenizer.ggml.model", str, "") == "llama"
    is_bpe = pieces and "tokenizer.ggml.merges" in metadata
    return {"tokenizer.ggml.model": _text("gemma4")} if is_bpe else {}


@dataclass(frozen=True)
class Spelling:
    """How Ollama writes an architecture, and what it `becomes`.

    `sign` is found in a key or a tensor's name of its files alone; "" where the architecture's
    name says it. `tensors` are parts of names between dots, `adds` are pairs for a file that has
    none of their keys, `sets` those that it has otherwise.
    """

    arch: str
    sign: str = ""
    becomes: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    adds: Added = _nothing
    sets: Added = _nothing

    def fits(self, metadata: Metadata, tensors: Tensors) -> bool:
        """True if a file is written so."""
        if metadata.get("general.architecture", str, "") != self.arch:
            return False
        return not self.sign or any(re.search(self.sign, n) for n in (*metadata, *tensors))

    def respelt(self, metadata: Metadata, tensors: Tensors) -> tuple[Metadata, Tensors]:
        """The file's pairs and tensors by their common names."""
        added = {k: v for k, v in self.adds(metadata).items() if k not in metadata}
        entries = {key: metadata[key] for key in metadata} | added | dict(self.sets(metadata))
        becomes = self.becomes or self.arch
        entries = {self._key(key, becomes): entry for key, entry in entries.items()}
        entries["general.architecture"] = _text(becomes)
        names = {name: self._tensor(name) for name in tensors}
        renamed = {names[n]: replace(info, name=names[n]) for n, info in tensors.items()}
        return Metadata(metadata.path, entries), renamed

    def _key(self, key: str, becomes: str) -> str:
        prefix, rest = f"{self.arch}.", key.removeprefix(f"{self.arch}.")
        return key if not key.startswith(prefix) else f"{becomes}.{self.keys.get(rest, rest)}"

    def _tensor(self, name: str) -> str:
        for old, new in self.tensors.items():
            name = self._part(old).sub(new, name)
        return name

    @staticmethod
    def _part(text: str) -> "re.Pattern[str]":
        return re.compile(rf"(?<![^.]){re.escape(text)}(?![^.])")


_GEMMA3_KEYS = {
    "rope.global.freq_base": "rope.freq_base",
    "rope.local.freq_base": "rope.freq_base_swa",
}
SPELLINGS = (
    Spelling(
        "gptoss",
        becomes="gpt-oss",
        tensors={"attn_out": "attn_output", "ffn_norm": "post_attention_norm"},
        adds=_gptoss,
        sets=lambda metadata: {"tokenizer.ggml.pre": _text("gpt-4o")},
    ),
    Spelling(
        "gemma3",
        sign=r"^dense\.0\.",
        becomes="gemma-embedding",
        keys=_GEMMA3_KEYS,
        tensors={"dense.0": "dense_2", "dense.1": "dense_3"},
    ),
    Spelling(
        "gemma3",
        sign=r"\.rope\.local\.freq_base$",
        keys=_GEMMA3_KEYS,
        adds=_gemma3,
    ),
    Spelling(
        "gemma4",
        tensors={"ffn_gate_inp.per_expert_scale": "ffn_down_exps.scale"},
        sets=_gemma4,
    ),
    Spelling("olmo3", becomes="olmo2"),
    *(Spelling(arch, sign=r"\.ssm_dt$", adds=_qwen35) for arch in ("qwen35", "qwen35moe")),
    Spelling(
        "nemotron_h_moe",
        sign=r"\.ffn_latent_in\.",
        tensors={"ffn_latent_in": "ffn_latent_down", "ffn_latent_out": "ffn_latent_up"},
    ),
)


def respelt(metadata: Metadata, tensors: Tensors) -> tuple[Metadata, Tensors]:
    """A file's pairs and tensors as llama.cpp's converter would have named them."""
    for spelling in SPELLINGS:
        if spelling.fits(metadata, tensors):
            return spelling.respelt(metadata, tensors)
    return metadata, tensors
