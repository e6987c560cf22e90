"""Real headers with a few of their parts changed: what a case is depends on its number alone."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.gguf import open_gguf
from engine.gguf.formats import FORMATS
from engine.gguf.values import ValueType as V
from tests.gguf_files import Blocks, Draft, drafted
from tests.goldens.tiny import ARCHITECTURES, write_tiny

BITS = {V.UINT8: 8, V.UINT16: 16, V.UINT32: 32, V.UINT64: 64}
SIGNED = {V.INT8: 8, V.INT16: 16, V.INT32: 32, V.INT64: 64}
FLOATS = [0.0, -0.0, 1.0, -4.0, 1e-45, 1e-30, 3e38, float("inf"), float("-inf"), float("nan")]
WORDS = ["", "a", "llama", "gemma3", "gpt2", "\x1b[2J", "\n", "x" * 5000, "‮", "yarn", "none"]
# Keys that files may have besides, with what is usual there; {} is the architecture.
MORE = {
    "general.alignment": V.UINT32,
    "tokenizer.chat_template": V.STRING,
    "tokenizer.ggml.eot_token_id": V.UINT32,
    "tokenizer.ggml.add_bos_token": V.BOOL,
    "{}.expert_count": V.UINT32,
    "{}.vocab_size": V.UINT32,
    "{}.attention.key_length": V.UINT32,
    "{}.attention.value_length": V.UINT32,
    "{}.attention.sliding_window": V.UINT32,
    "{}.rope.freq_base": V.FLOAT32,
    "{}.rope.scaling.type": V.STRING,
    "{}.rope.scaling.factor": V.FLOAT32,
    "{}.rope.scaling.original_context_length": V.UINT32,
    "{}.rope.dimension_count": V.UINT32,
    "{}.final_logit_softcapping": V.FLOAT32,
    "split.count": V.UINT16,
    "split.no": V.UINT16,
}
NAMES = [
    "blk.99999999.attn_q.weight",
    "blk.-1.x",
    "blk..weight",
    "v.patch_embd.weight",
    "a" * 300,
    "\x1b[2J",
]


@lru_cache
def _base(architecture: str) -> Draft:
    with TemporaryDirectory() as folder:
        path = write_tiny(Path(folder) / "tiny.gguf", architecture)
        with open_gguf(path) as file:
            return drafted(file)


def draft_of(architecture: str) -> Draft:
    """A model that is whole, to be changed."""
    base = _base(architecture)
    return replace(base, pairs=dict(base.pairs), tensors=dict(base.tensors), offsets={})


def case(number: int) -> bytes:
    """A file, one to three of whose parts are not what they were."""
    rng = random.Random(number)
    draft = draft_of(rng.choice(ARCHITECTURES))
    for _ in range(rng.randint(1, 3)):
        rng.choice(CHANGES)(draft, rng)
    raw = bytearray(b"".join(draft.encoded()))
    if rng.random() < 0.15:
        for _ in range(rng.randint(1, 3)):
            raw[rng.randrange(min(len(raw), 1 << 14))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    if rng.random() < 0.05:
        del raw[rng.randrange(len(raw)) :]
    return bytes(raw)


def odd(kind: V, rng: random.Random) -> Any:
    """A value at the edges of a type."""
    if kind in BITS:
        bits = BITS[kind]
        return rng.choice([0, 1, 2, 3, 7, 255, 2 ** (bits - 1), 2**bits - 1, rng.getrandbits(bits)])
    if kind in SIGNED:
        most = 2 ** (SIGNED[kind] - 1)
        return rng.choice([0, 1, -1, most - 1, -most, rng.randrange(-most, most)])
    if kind in (V.FLOAT32, V.FLOAT64):
        return rng.choice(FLOATS)
    if kind is V.BOOL:
        return rng.random() < 0.5
    if kind is V.STRING:
        return rng.choice(WORDS)
    element = rng.choice([k for k in V if k is not V.ARRAY])
    return element, [odd(element, rng) for _ in range(rng.choice([0, 1, 3, 400]))]


def _value(draft: Draft, rng: random.Random) -> None:
    """Another value of the same type."""
    key = rng.choice(list(draft.pairs))
    kind, value = draft.pairs[key]
    if kind is not V.ARRAY:
        draft.pairs[key] = kind, odd(kind, rng)
        return
    element, items = value[0], list(value[1])
    how = rng.randrange(4)
    if how == 0 and items:
        for _ in range(rng.randint(1, 5)):
            items[rng.randrange(len(items))] = odd(element, rng)
    elif how == 1:
        del items[rng.randrange(len(items) + 1) :]
    elif how == 2:
        items *= rng.choice([2, 3])
    else:
        rng.shuffle(items)
    draft.pairs[key] = kind, (element, items)


def _type(draft: Draft, rng: random.Random) -> None:
    kind = rng.choice(list(V))
    draft.pairs[rng.choice(list(draft.pairs))] = kind, odd(kind, rng)


def _less(draft: Draft, rng: random.Random) -> None:
    del draft.pairs[rng.choice(list(draft.pairs))]


def _more(draft: Draft, rng: random.Random) -> None:
    key, kind = rng.choice(list(MORE.items()))
    draft.pairs[key.format(rng.choice(ARCHITECTURES))] = kind, odd(kind, rng)


def _no_tensor(draft: Draft, rng: random.Random) -> None:
    del draft.tensors[rng.choice(list(draft.tensors))]


def _name(draft: Draft, rng: random.Random) -> None:
    old = rng.choice(list(draft.tensors))
    others = [*NAMES, old.replace("blk.0", "blk.7"), old + "x", rng.choice(list(draft.tensors))]
    new = rng.choice(others)
    draft.tensors[new] = draft.tensors.pop(old)


def _shape(draft: Draft, rng: random.Random) -> None:
    """Other dimensions, most often with as many bytes as they need."""
    name = rng.choice(list(draft.tensors))
    blocks = draft.tensors[name]
    dims = [*blocks.dims]
    how = rng.randrange(5)
    if how == 0:
        dims.reverse()
    elif how == 1:
        dims[rng.randrange(len(dims))] = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, 31, 64])
    elif how == 2:
        dims.append(rng.choice([0, 1, 2]))
    elif how == 3 and len(dims) > 1:
        dims.pop()
    else:
        dims = [10**6, 2]
    _put(draft, name, blocks.type_id, dims, rng.random() < 0.8)


def _format(draft: Draft, rng: random.Random) -> None:
    name = rng.choice(list(draft.tensors))
    _put(draft, name, rng.choice([*FORMATS, 4, 99]), [*draft.tensors[name].dims], True)


def _put(draft: Draft, name: str, type_id: int, dims: list[int], whole: bool) -> None:
    count, fmt = 1, FORMATS.get(type_id)
    for n in dims:
        count *= n
    size = 0 if fmt is None else count // fmt.block * fmt.bytes
    old = draft.tensors[name].data
    data = (old * (size // max(1, len(old)) + 1))[:size] if whole and size < 1 << 24 else old
    draft.tensors[name] = Blocks(type_id, dims, data)


def _offset(draft: Draft, rng: random.Random) -> None:
    name = rng.choice(list(draft.tensors))
    draft.offsets[name] = rng.choice([0, 1, 32, 2**40, 2**63, 2**64 - 32])


def _constant(draft: Draft, rng: random.Random) -> None:
    """What models read while they are made."""
    count = rng.choice([0, 1, 7, 8, 9, 10**6])
    draft.tensors["rope_freqs.weight"] = Blocks(0, [count], bytes(4 * count))


CHANGES: list[Callable[[Draft, random.Random], None]] = [
    *(_value, _value, _value, _type, _less, _more, _more),
    *(_no_tensor, _name, _shape, _shape, _format, _offset, _constant),
]
