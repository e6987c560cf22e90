"""Writes tokenizer_vocabs.json.xz and tokenizer_models.json: texts and the ids llama.cpp gives.

    python tests/goldens/make_tokenizer_goldens.py LLAMA_CPP_SOURCE MODEL.gguf ...

LLAMA_CPP_SOURCE is the unpacked source of llama.cpp (it lies in the source distribution of
llama-cpp-python under vendor/llama.cpp); needs the packages llama-cpp-python and gguf.

Vocabularies: models/ggml-vocab-*.gguf with their .inp and .out, from llama.cpp (MIT licence). They
are stored reduced to what the texts could use: every special, byte and one-letter token, and each
token and merge whose text occurs in the (byte-encoded) texts, wherever these may be cut. What is
left out cannot appear, neither in a right nor in a wrong tokenisation that is made of merges.
"""

import ctypes
import hashlib
import json
import lzma
import random
import sys
from pathlib import Path
from typing import Any

import llama_cpp
from gguf import GGUFReader

HERE = Path(__file__).parent
SEPARATOR = "\n__ggml_vocab_test__\n"
UNTESTED = ("bert-bge",)  # WordPiece

TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    " \n  \n\n\n   \n",
    "\t\tx\t",
    "\r\n\r\nab\r\n",
    "Hello, world! It's 5 o'clock; WE'RE late, I'LL go, you'Ve been told, they'd know.",
    "don\u2019t 'Tis ''s 's' 'ſ 'K",
    "HTTPServer camelCase snake_case SCREAMING_CASE iOS McDonald XMLHttpRequest2",
    "1 12 123 1234 12345 123456 1234567 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅷ ٣٤٥ १२३ 一二三",
    "def f(x):\n    if x > 0:\n        return x**2  # comment\n\treturn None\n\n\n",
    '{"key": [1, 2.5, null], "a/b": "c\\\\d\\n"}</script><!-- x -->',
    "a=b+c-d*e/f%g^h&i|j~k!l@m#n$o;p:q?r,s.t<u>v(w)x[y]z{0}_`'\"\\",
    "!!!! ???? ---- ==== ..... ;;;; ***** ((()))",
    "Zażółć gęślą jaźń. Übergröße Straße ẞ. Çağrı İstanbul ılık. Ærøskøbing þorn",
    "Съешь ещё этих мягких французских булок, да выпей чаю. ЁЖИК",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΑΒΓ ώ ΐ",
    "我想在apple工作1314151天～ 漢字仮名交じり文、テスト。ひらがなカタカナ 「引用」",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다",
    "كيف حالك اليوم؟ ١٢٣ فارسی می‌خواهم",
    "שלום עולם, מה שלומך? נִקּוּד",
    "नमस्ते दुनिया। क्षत्रिय ज्ञान বাংলা தமிழ் తెలుగు ગુજરાતી",
    "สวัสดีชาวโลก ราคา ๑๒๓ บาท កាន់តែពិសេសអាចខលចេញ ສະບາຍດີ မြန်မာ",
    "😀😃 🦙.cpp 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 😶‍🌫️ ✅ ⚠️ 🚀🚀🚀",
    "e\u0301 o\u0308 a\u0300\u0301\u0302 \u0301x Z\u0351\u036b\u0343\u036a\u0302",
    "\u00a0nbsp\u2003em\u3000ideographic\u2028line\u2029para\u200bzero\ufeffbom\u00adshy",
    "\x00\x01\x07\x1b\x1c\x1f\x7f\x80\x85\x9f",
    "\U0001d400\U0001d49c \U00010400\U0001e900 \U00020000\U0002f800 \U000e0041 \U0010ffff \u0378",
    "ǅ ʰ ª º ﬁ ﬀ Ａｂ１ ㎏ € £ ¥ ₿ ± × ÷ ≠ ∑ ← ┃ █ ♥ ™",
    " leading", "  leading", "trailing ", "trailing  ", " both ", "a  b   c    d     e",
    "a\n b\n\n c\n \nd", "x \n y\t\n z", "▁ ▁▁ a▁b ▁c", "<0x0A> <0xFF> [PAD] </p> <table><tr>",
    "<s></s> <unk> <|im_start|>user\nHi<|im_end|>\n<|endoftext|><start_of_turn><end_of_turn>",
    "<|begin_of_text|><|eot_id|> [INST] x [/INST] <bos><eos><pad> <|fim_prefix|><file_sep>",
    "Ĝis revido Ġ Ċ ĉ âĢĻ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " " * 70 + "x" + "\n" * 40 + "\t" * 20,
    "Donaudampfschifffahrtsgesellschaftskapitän pneumonoultramicroscopicsilicovolcanoconiosis",
]  # fmt: skip


def generated(special: list[str]) -> list[str]:
    """Random texts of words, characters of many scripts, white space and special tokens."""
    rng = random.Random(20)
    alphabet = "".join(TEXTS) + "    \n\n''"
    words = [word for text in TEXTS for word in text.split()]
    texts = []
    for _ in range(24):
        parts = []
        for _ in range(rng.randrange(2, 14)):
            kind = rng.random()
            if kind < 0.5:
                parts.append(rng.choice(["", " ", " ", "  ", "\n"]) + rng.choice(words))
            elif kind < 0.9 or not special:
                parts.append(rng.choice(alphabet) * rng.choice([1, 1, 2, 3, 7]))
            else:
                parts.append(rng.choice(special))
        texts.append("".join(parts))
    return texts


class Oracle:
    """A vocabulary as llama.cpp reads it."""

    def __init__(self, path: Path) -> None:
        self.model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model.model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def ids(self, text: str, add: bool, parse: bool) -> list[int]:
        data = text.encode()
        room = len(data) + 8
        out = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), out, room, add, parse)
        assert count >= 0, count
        return list(out[:count])

    def pieces(self) -> str:
        """A digest of what all tokens stand for, without and with special ones shown."""
        digest = hashlib.sha256()
        buffer = ctypes.create_string_buffer(1 << 12)
        for special in (False, True):
            for token in range(self.size):
                n = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 1 << 12, 0, special)
                digest.update(b"%d:" % n + buffer.raw[:n])
        return digest.hexdigest()

    def eog(self) -> list[int]:
        return [t for t in range(self.size) if llama_cpp.llama_vocab_is_eog(self.vocab, t)]

    def facts(self, special: list[str]) -> dict[str, Any]:
        cases = [
            [text, self.ids(text, True, True), self.ids(text, False, False)]
            for text in TEXTS + generated(special)
        ]
        return {
            "size": self.size,
            "eog": self.eog(),
            "add_bos": bool(llama_cpp.llama_vocab_get_add_bos(self.vocab)),
            "cases": cases,
        }


def metadata(path: Path) -> dict[str, Any]:
    fields = GGUFReader(path).fields
    keys = [k for k in fields if k.startswith("tokenizer.ggml.") or k == "general.name"]
    return {key: fields[key].contents() for key in keys}


def special_texts(meta: dict[str, Any]) -> list[str]:
    types = meta["tokenizer.ggml.token_type"]
    texts = meta["tokenizer.ggml.tokens"]
    return [texts[i] for i in range(len(texts)) if types[i] in (2, 3, 4)]


def reduced(meta: dict[str, Any], texts: list[str], bytes_to_letters: dict[int, str]) -> Any:
    """`meta` with only the tokens and merges that occur in `texts`."""
    kind = meta["tokenizer.ggml.model"]
    if kind == "gpt2":
        written = ["".join(bytes_to_letters[b] for b in text.encode()) for text in texts]
    else:
        written = ["\u2581" + text.replace(" ", "\u2581") for text in texts]
    haystack = "\0".join(written)
    plain = "\0".join(texts)
    tokens = meta.pop("tokenizer.ggml.tokens")
    types = meta.pop("tokenizer.ggml.token_type")
    scores = meta.pop("tokenizer.ggml.scores", None)
    merges = meta.pop("tokenizer.ggml.merges", None)
    kept = [
        i
        for i, text in enumerate(tokens)
        # A space may be put in front of any fragment, so a leading one counts as being there.
        if types[i] != 1
        or len(text) == 1
        or text.removeprefix("\u2581") in haystack
        or text in plain
    ]
    return {
        "metadata": meta,
        "size": len(tokens),
        "tokens": [[i, tokens[i], types[i]] for i in kept],
        "scores": scores and [scores[i] for i in kept],
        "merges": merges and [rule for rule in merges if rule.replace(" ", "") in haystack],
    }


def letters() -> dict[int, str]:
    """The same table as in transformers' GPT-2 tokenizer, taken from there."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return bytes_to_unicode()


def main() -> None:
    source, *models = map(Path, sys.argv[1:])
    vocabs = {}
    for path in sorted(source.glob("models/ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        given, expected = path.with_suffix(".gguf.inp"), path.with_suffix(".gguf.out")
        if not given.exists() or name in UNTESTED:
            continue
        meta = metadata(path)
        oracle = Oracle(path)
        facts = oracle.facts(special_texts(meta)[-40:])
        inputs = given.read_bytes().decode().split(SEPARATOR)
        lines = expected.read_text().split("\n")
        outputs = [[int(i) for i in line.split()] for line in lines[: len(inputs)]]
        assert not "".join(lines[len(inputs) :]), name
        assert all(oracle.ids(i, False, False) == o for i, o in zip(inputs, outputs, strict=True))
        texts = inputs + [case[0] for case in facts["cases"]]
        small = reduced(meta, texts, letters())
        shipped = [[i, o] for i, o in zip(inputs, outputs, strict=True)]
        vocabs[name] = {"vocab": small, **facts, "shipped": shipped}
        print(name, len(small["tokens"]), "tokens", len(small["merges"] or []), "merges")
    data = json.dumps(vocabs, ensure_ascii=True, separators=(",", ":")).encode()
    (HERE / "tokenizer_vocabs.json.xz").write_bytes(lzma.compress(data, preset=9))

    real = {}
    for path in models:
        oracle = Oracle(path)
        special = special_texts(metadata(path))
        real[path.name.lower().split("-")[0]] = {**oracle.facts(special), "pieces": oracle.pieces()}
    text = json.dumps(real, ensure_ascii=True, separators=(",", ":"))
    (HERE / "tokenizer_models.json").write_text(text.replace('],["', '],\n["') + "\n")


if __name__ == "__main__":
    main()
