"""Writes pre_tokenizers.json.xz: small vocabularies of every kind, and the ids others give.

    PYTHONPATH=LLAMA_SITE python -m tests.goldens.make_pre_goldens

It needs llama-cpp-python, gguf, tokenizers and sentencepiece, and runs at the project's root.

The byte-pair vocabulary is learnt from the texts as wholes: its merges run over spaces, digits and
line ends, so that ids differ wherever a pre-tokenizer cuts elsewhere. Each name's ids are those of
llama.cpp; where `tokenizers` with the model's own pattern gives others (`own`), llama.cpp's pattern
is one that its regular expressions can do, and the model was made with the other.
"""

import io
import json
import lzma
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import llama_cpp
import sentencepiece
import tokenizers
from tokenizers import normalizers, pre_tokenizers, processors

from engine.tokenizer.bpe import LETTERS
from engine.tokenizer.patterns import PRE_TOKENIZERS
from tests.goldens.charsmap import field, rule_lines
from tests.goldens.make_tokenizer_goldens import TEXTS, Oracle, generated

HERE = Path(__file__).parent
MERGES = 1500
# Words that no merges make: only a pre-tokenizer that takes whole words finds them.
UNREACHED = [" Donaudampfschifffahrtsgesellschaftskapit\u00e4n", " psychosomatically"]
# Merges of symbols with what may end their word, before all that is learnt.
FIRST = [(";", "\u010a"), ("!", "\u010a"), ("?", "\u010a"), ("/", "\u010a"), ("\u00bd", "a")]
SPECIAL = ["<s>", "</s>", "<|end|>"]
MORE = [
    "iPhone helloWorld getUserName我們HTMLParser漢字kanji",
    "你好abc 12345漢 don'T WE'LL x'S\n\n\n!!\n??\r\n..",
    "naïve CAFÉ’S Ünïcode ÀB ñandú Straße'll 1a2b3c",
    "ΟΔΟΣ ΣΑΣ ΟΔΟΣ ΣΑΣ οδος σας οδοσ σασ", "a psychosomatically b",
    "f();\ng();\n\nh();\r\ni();\nj(); {\n}\n{\n}\n", "\n\n\na\n\n b\n",
    "x=1;\n\n\ty=2;\n#\n", "résumé E\u0301COLE e\u0301cole",
]  # fmt: skip
NORMALIZER, CHARSMAP = 3, 2
"""Fields of SentencePiece's ModelProto and NormalizerSpec."""
WORD_TYPES = {"[PAD]": 3, "[UNK]": 3, "[CLS]": 3, "[SEP]": 3, "[MASK]": 3}


def written(text: str) -> str:
    return "".join(LETTERS[byte] for byte in text.encode())


def learnt(texts: list[str]) -> list[str]:
    """Merge rules of whole texts, the most frequent pair first."""
    words = [list(written(text)) for text in texts]
    rules = []
    for left, right in FIRST:
        rules.append(f"{left} {right}")
        words = [joined(word, left, right) for word in words]
    for _ in range(MERGES):
        pairs = Counter(pair for word in words for pair in pairwise(word))
        (left, right), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        rules.append(f"{left} {right}")
        words = [joined(word, left, right) for word in words]
    return rules


def joined(word: list[str], left: str, right: str) -> list[str]:
    result: list[str] = []
    for piece in word:
        if result and result[-1] == left and piece == right:
            result[-1] = left + right
        else:
            result.append(piece)
    return result


def oracle(kind: str, values: dict[str, Any]) -> Oracle:
    """llama.cpp with that vocabulary; ValueError where it does not know the pre-tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model(kind)
        for key, value in values.items():
            add(writer, f"tokenizer.ggml.{key}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return Oracle(path)


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bytes):
        writer.add_key_value(key, value, gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT8)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_uint32(key, value)


def byte_pairs(texts: list[str]) -> dict[str, Any]:
    merges = learnt(texts)
    pieces = [*dict.fromkeys(rule.replace(" ", "") for rule in merges), *map(written, UNREACHED)]
    tokens = [*LETTERS.values(), *pieces, *SPECIAL]
    types = [1] * (len(tokens) - len(SPECIAL)) + [3] * len(SPECIAL)
    vocab: dict[str, Any] = {"tokens": tokens, "token_type": types, "merges": merges}
    vocab["bos_token_id"] = vocab["eos_token_id"] = tokens.index("<s>")
    names = {}
    known: dict[str, Any] = {}
    for name, pre in PRE_TOKENIZERS.items():
        if not pre.byte_letters:
            continue
        try:
            given = oracle("gpt2", {**vocab, "pre": name})
        except ValueError:
            print("llama.cpp does not know", name)
            continue
        ids = [given.ids(text, False, False) for text in texts]
        own = theirs(tokens, merges, name, texts)
        others = {i: o for i, (a, o) in enumerate(zip(ids, own, strict=True)) if a != o}
        key = json.dumps([ids, others])
        same = known.setdefault(key, name)
        add_bos = bool(llama_cpp.llama_vocab_get_add_bos(given.vocab))
        names[name] = {"add_bos": add_bos, "same": same}
        if same == name:
            names[name] |= {"ids": ids, "own": others}
            print(name, "own ids in", [texts[i][:20] for i in others])
    return {"vocab": vocab, "names": names}


def theirs(tokens: list[str], merges: list[str], name: str, texts: list[str]) -> list[list[int]]:
    """The ids of `tokenizers`, with the patterns of the model's tokenizer.json."""
    vocab = {token: i for i, token in enumerate(tokens)}
    pairs = [(rule.split(" ")[0], rule.split(" ")[1]) for rule in merges]
    pre = PRE_TOKENIZERS[name]
    model = tokenizers.models.BPE(vocab, pairs, ignore_merges=pre.ignore_merges)
    it = tokenizers.Tokenizer(model)
    cuts = [pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated") for pattern in pre.patterns]
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    it.pre_tokenizer = pre_tokenizers.Sequence([*cuts, letters])
    return [it.encode(text, add_special_tokens=False).ids for text in texts]


def word_pieces(texts: list[str]) -> dict[str, Any]:
    it = tokenizers.BertWordPieceTokenizer()
    it.train_from_iterator(texts, vocab_size=900, min_frequency=2, special_tokens=[*WORD_TYPES])
    it.post_processor = processors.BertProcessing(
        ("[SEP]", it.token_to_id("[SEP]")), ("[CLS]", it.token_to_id("[CLS]"))
    )
    entries = sorted(it.get_vocab().items(), key=lambda item: item[1])
    tokens = [
        text[2:] if text.startswith("##") else text if text in WORD_TYPES else "\u2581" + text
        for text, _ in entries
    ]
    types = [WORD_TYPES.get(text, 1) for text, _ in entries]
    vocab: dict[str, Any] = {"tokens": tokens, "token_type": types}
    for key, text in (("bos", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]")):
        vocab[f"{key}_token_id"] = tokens.index(text)
    it._tokenizer.encode_special_tokens = True  # their texts are text
    cases = {}
    for lower, strip in ((True, True), (False, False), (True, False)):
        given = {"normalizer.lowercase": lower, "normalizer.strip_accents": strip}
        ids = [oracle("bert", {**vocab, **given}).ids(text, True, False) for text in texts]
        it.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
        own = [it.encode(text).ids for text in texts]
        others = {i: o for i, (a, o) in enumerate(zip(ids, own, strict=True)) if a != o}
        print("bert", lower, strip, "own ids in", [texts[i][:20] for i in others])
        cases[f"{lower} {strip}"] = {"ids": ids, "own": others}
    return {"vocab": vocab, "cases": cases}


def unigrams(texts: list[str]) -> dict[str, Any]:
    """With SentencePiece's whole map, which is compared, and with a small one, which is kept."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        rules.write("".join(rule_lines("".join(texts))))
        rules.flush()
        unigram(texts, normalization_rule_name="nmt_nfkc")
        return unigram(texts, normalization_rule_tsv=rules.name)


def unigram(texts: list[str], **rules: str) -> dict[str, Any]:
    file = io.BytesIO()
    lines = [line for text in texts for line in text.split("\n") if "\0" not in line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=file,
        vocab_size=1200,
        model_type="unigram",
        hard_vocab_limit=False,
        character_coverage=0.995,
        minloglevel=2,
        **rules,
    )
    it = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    every = range(it.get_piece_size())
    vocab = {
        "tokens": [it.id_to_piece(i) for i in every],
        "token_type": [2 if it.is_unknown(i) else 3 if it.is_control(i) else 1 for i in every],
        "scores": [it.get_score(i) for i in every],
        "precompiled_charsmap": field(field(file.getvalue(), NORMALIZER), CHARSMAP),
        "add_space_prefix": True,
        "remove_extra_whitespaces": True,
        "bos_token_id": it.bos_id(),
        "eos_token_id": it.eos_id(),
        "unknown_token_id": it.unk_id(),
        "add_bos_token": True,
        "add_eos_token": True,
    }
    cases = {}
    for merges in (True, False):
        given = {**vocab, "remove_extra_whitespaces": merges}
        ids = [oracle("t5", given).ids(text, True, False) for text in texts]
        cases[str(merges)] = {"ids": ids}
    own = [[it.bos_id(), *it.encode(text), it.eos_id()] for text in texts]
    differ = [text for text, a, b in zip(texts, cases["True"]["ids"], own, strict=True) if a != b]
    print("t5", rules, "SentencePiece differs, by sums in 32 bits:", differ)
    return {"vocab": {**vocab, "precompiled_charsmap": [*vocab["precompiled_charsmap"]]},
            "cases": cases}  # fmt: skip


def main() -> None:
    texts = [*TEXTS, *MORE, *generated([])]
    goldens = {
        "texts": texts,
        "gpt2": byte_pairs(texts),
        "bert": word_pieces(texts),
        "t5": unigrams(texts),
    }
    data = json.dumps(goldens, ensure_ascii=True, separators=(",", ":")).encode()
    (HERE / "pre_tokenizers.json.xz").write_bytes(lzma.compress(data, preset=9))
    print(len(data), "bytes,", (HERE / "pre_tokenizers.json.xz").stat().st_size, "compressed")


if __name__ == "__main__":
    sys.exit(main())
