"""Writes tokenizer_plamo.json.xz: a vocabulary as PLaMo 2 has them, and the ids llama.cpp gives.

    python -m tests.goldens.make_plamo_tokenizer

Needs llama-cpp-python and gguf. PLaMo's own vocabulary is not free to be stored, so this one is
made: pieces of half of the texts with scores that often tie, bytes, and control tokens in front.
Texts with the letters of a control token are left out: llama.cpp takes them for it even where none
is to be parsed.
"""

import json
import lzma
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf

from tests.goldens.make_tokenizer_goldens import HERE, TEXTS, Oracle

CONTROL = [f"<|plamo:{name}|>" for name in ("unk", "bos", "eos", "pad", "op")]
PIECES, LONGEST = 2500, 9
ROUNDED = {"\u0167": -0.50006, "\u014b": -0.50006, "\u0167\u014b": -1.0001}
"""The two letters cost less than both together, but for the rounding of costs."""


def pieces() -> dict[str, float]:
    """Texts of tokens and their scores, in quarters; some cost as much as an unknown character,
    some too much to be taken.
    """
    rng = random.Random(3)
    made: dict[str, float] = {}
    whole = [text for text in TEXTS[::2] if text]
    while len(made) < PIECES:
        text = rng.choice(whole)
        at = rng.randrange(len(text))
        piece = text[at : at + rng.choice((1, 1, 2, 2, 3, 4, 6, LONGEST))]
        score = -rng.choice((0.25, 0.5, 2.0, 5.0, 5.25, 7.12345, 12.00005, 900.0, 3000.0))
        if not set(piece) & set("\0<["):  # no end of a turn among them
            made.setdefault(piece, score * (len(piece) if rng.random() < 0.5 else 1))
    return {**made, **ROUNDED}


def write(path: Path, tokens: list[str], types: list[int], scores: list[float]) -> None:
    """A file that llama.cpp reads a vocabulary of."""
    writer = gguf.GGUFWriter(path, "plamo2")
    writer.add_tokenizer_model("plamo2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_eot_token_id(CONTROL.index("<|plamo:op|>"))
    for key in ("block_count", "embedding_length", "attention.head_count", "context_length"):
        writer.add_uint32(f"plamo2.{key}", 64)
    for key in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count"):
        writer.add_uint32(f"plamo2.ssm.{key}", 64)
    writer.add_uint32("plamo2.feed_forward_length", 64)
    writer.add_float32("plamo2.attention.layer_norm_rms_epsilon", 1e-6)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    made = pieces()
    tokens = [*CONTROL, *(f"<0x{byte:02X}>" for byte in range(256)), *made]
    types = [2, *[3] * (len(CONTROL) - 1), *[6] * 256, *[1] * len(made)]
    scores = [0.0] * (len(CONTROL) + 256) + list(made.values())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        write(path, tokens, types, scores)
        facts = Oracle(path).facts([*ROUNDED])
    facts["cases"] = [case for case in facts["cases"] if "<|plamo:" not in case[0]]
    vocab = {
        "metadata": {
            "tokenizer.ggml.model": "plamo2",
            "tokenizer.ggml.eot_token_id": CONTROL.index("<|plamo:op|>"),
        },
        "size": len(tokens),
        "tokens": [[i, token, types[i]] for i, token in enumerate(tokens)],
        "scores": scores,
        "merges": None,
    }
    text = json.dumps({"vocab": vocab, **facts}, ensure_ascii=True, separators=(",", ":"))
    (HERE / "tokenizer_plamo.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    print(len(tokens), "tokens", len(facts["cases"]), "texts")  # noqa: T201  for people


if __name__ == "__main__":
    main()
