"""Writes tokenizer_rwkv.json.xz: the vocabulary of RWKV World, and the ids llama.cpp gives.

    python -m tests.goldens.make_rwkv_tokenizer VOCABULARY

VOCABULARY is rwkv_vocab_v20230424.txt of the package `rwkv` (Apache-2.0); needs llama-cpp-python
and gguf. It is stored reduced to single bytes and the tokens whose bytes occur in the texts: others
cannot appear. Texts with the letters of the end's token are left out: llama.cpp takes them for it
even where none is to be parsed.
"""

import ast
import json
import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf

from tests.goldens.make_tokenizer_goldens import HERE, Oracle

SIZE, END = 65536, 261
"""Tokens with those that pad the matrices, and the one of two line ends, which ends a turn."""


def main() -> None:
    tokens = ["<s>"]
    data = [b""]
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        _, rest = line.split(" ", 1)
        token = ast.literal_eval(rest.rsplit(" ", 1)[0])
        data.append(token.encode() if isinstance(token, str) else token)
        tokens.append(repr(data[-1])[2:-1])
    types = [gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * (len(tokens) - 1)]
    padding = [f"[PAD{i}]" for i in range(len(tokens), SIZE)]
    tokens, types = tokens + padding, types + [gguf.TokenType.UNUSED] * len(padding)
    meta = {
        f"tokenizer.ggml.{name}_token_id": token
        for name, token in (("bos", 0), ("eos", 0), ("eot", END))
    } | {"tokenizer.ggml.model": "rwkv"}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        writer = gguf.GGUFWriter(path, "rwkv7")
        writer.add_tokenizer_model("rwkv")
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)
        writer.add_eot_token_id(END)
        for key in ("block_count", "embedding_length", "attention.head_count", "wkv.head_size"):
            writer.add_uint32(f"rwkv7.{key}", 64)
        for key in ("decay", "iclr", "value_residual_mix"):
            writer.add_uint32(f"rwkv7.attention.{key}_lora_rank", 64)
        writer.add_uint32("rwkv7.context_length", 512)
        writer.add_uint32("rwkv7.feed_forward_length", 64)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        facts = Oracle(path).facts([])
    facts["cases"] = [case for case in facts["cases"] if tokens[0] not in case[0]]
    written = b"\0".join(case[0].encode() for case in facts["cases"])
    kept = [i for i in range(len(data)) if len(data[i]) < 2 or data[i] in written]
    vocab = {
        "metadata": meta,
        "size": SIZE,
        "tokens": [[i, tokens[i], int(types[i])] for i in kept],
        "scores": None,
        "merges": None,
    }
    made = json.dumps({"vocab": vocab, **facts}, ensure_ascii=True, separators=(",", ":"))
    (HERE / "tokenizer_rwkv.json.xz").write_bytes(lzma.compress(made.encode(), preset=9))
    print(len(kept), "tokens", len(facts["cases"]), "texts")  # noqa: T201  for people


if __name__ == "__main__":
    main()
