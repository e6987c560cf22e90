"""Layouts of places that are filled in, token by token, for each family of vocabularies.

They are what llama.cpp's tools/server (format_prompt_infill) makes of such vocabularies, by hand,
and for Codestral and CodeLlama what Mistral's and Meta's own code do.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from engine.errors import BadSetting, CannotFill
from engine.protocol import Infill, Snippet
from engine.runner.infill import infill_tokens, last_part
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.engine.tokenizer.test_llama_cpp import VOCABS, restored
from tests.engine.tokenizer.vocabs import byte_pairs, sentence_piece

LETTERS = dict.fromkeys("\u2581abcdefghijklmnopqrstuvwxyz=1-", 0.0)
SHOWN = {" ": ("\u0120", "\u2581"), "\n": ("\u010a", "<0x0A>")}
FILES = [Snippet("k=1", "k"), Snippet("m\n")]


def bpe(*special: str, **values: Any) -> Tokenizer:
    """Byte-level: a token for each letter, and these, of which `<s>` is BOS."""
    return load_tokenizer(byte_pairs([], ["<s>", *special], bos_token_id=256, **values))


def spm(*special: str, **values: Any) -> Tokenizer:
    """SentencePiece: a token for each letter, and these control tokens."""
    return load_tokenizer(sentence_piece(LETTERS | dict.fromkeys(special, 0.0), **values))


def spelt(tokenizer: Tokenizer, layout: str) -> list[int]:
    """The tokens of a layout: marks in {}, letters by themselves."""
    found = []
    for mark, letter in re.findall(r"\{(.+?)\}|([^{}])", layout):
        names = (mark,) if mark else (letter, *SHOWN.get(letter, ()))
        found.append(next(t for name in names if (t := tokenizer.id(name)) is not None))
    return found


@dataclass(frozen=True)
class Family:
    """A vocabulary, and its layouts of a place alone, and in a repository of two other files."""

    tokenizer: Tokenizer
    alone: str
    in_files: str


SNIPPETS = "\n\n--- snippet ---\n\nk=1\n\n--- snippet ---\n\nm\n"
SPACED = "".join(f" \n\n--- snippet ---\n\n {text}" for text in ("k=1", "m\n"))  # SentencePiece
FIM = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>")
PLAIN = "{<fim_prefix>}ab\nc {<fim_suffix>}\nyz{<fim_middle>}"
BEGIN, HOLE, END = (f"<\uff5cfim\u2581{name}\uff5c>" for name in ("begin", "hole", "end"))
QWEN = "{<|fim_prefix|>}ab\nc {<|fim_suffix|>}\nyz{<|fim_middle|>}"
META = "{\u2581<PRE>} ab\nc {\u2581<SUF>}\nyz{\u2581<MID>}"
NAMES = ("prefix", "suffix", "middle")
FAMILIES = {
    "Qwen2.5-Coder": Family(
        bpe(*(f"<|fim_{n}|>" for n in (*NAMES, "pad")), "<|repo_name|>", "<|file_sep|>"),
        QWEN,
        "{<|repo_name|>}myproject\n{<|file_sep|>}k\nk=1{<|file_sep|>}tmp\nm\n{<|file_sep|>}filename\n"
        + QWEN,
    ),
    "StarCoder2": Family(
        bpe(*FIM, "<repo_name>", "<file_sep>"),
        PLAIN,
        "{<repo_name>}myproject\n{<file_sep>}k\nk=1{<file_sep>}tmp\nm\n{<file_sep>}filename\n"
        + PLAIN,
    ),
    "Granite": Family(
        bpe(*FIM, "<reponame>", "<filename>"),
        PLAIN,
        "{<reponame>}myproject\n" + SNIPPETS + PLAIN,
    ),
    "DeepSeek-Coder": Family(
        bpe(BEGIN, HOLE, END, add_bos_token=True),
        f"{{<s>}}{{{BEGIN}}}ab\nc {{{HOLE}}}\nyz{{{END}}}",
        f"{{<s>}}{SNIPPETS}{{{BEGIN}}}ab\nc {{{HOLE}}}\nyz{{{END}}}",
    ),
    "CodeGemma": Family(
        spm("<|a|>", "<|b|>", "<|c|>", "<|file_separator|>", add_space_prefix=False,
            prefix_token_id=289, suffix_token_id=291, middle_token_id=290),
        "{<s>}{<|a|>}ab\nc {<|c|>}\nyz{<|b|>}",
        "{<s>}" + SNIPPETS + "{<|a|>}ab\nc {<|c|>}\nyz{<|b|>}",
    ),
    "CodeLlama": Family(
        spm("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>"),
        "{<s>}" + META,
        "{<s>}" + SPACED + META,
    ),
    "Codestral": Family(
        spm("[PREFIX]", "[MIDDLE]", "[SUFFIX]", add_space_prefix=False),
        "{<s>}{[SUFFIX]}\nyz{[PREFIX]}ab\nc ",
        "{<s>}" + SNIPPETS + "{[SUFFIX]}\nyz{[PREFIX]}ab\nc ",
    ),
}  # fmt: skip


def place(**fields: Any) -> Infill:
    return Infill("ab\n", "\nyz", "c ", **fields)


@pytest.mark.parametrize("name", FAMILIES)
def test_layouts(name: str) -> None:
    family = FAMILIES[name]
    tokenizer = family.tokenizer
    assert infill_tokens(tokenizer, place(), 4096) == spelt(tokenizer, family.alone)
    found = infill_tokens(tokenizer, place(snippets=FILES, window=2048), 4096, most=64)
    assert found == spelt(tokenizer, family.in_files)


def test_the_suffix_first() -> None:
    qwen, codestral = FAMILIES["Qwen2.5-Coder"], FAMILIES["Codestral"]
    found = infill_tokens(qwen.tokenizer, place(suffix_first=True), 4096)
    layout = "{<|fim_suffix|>}\nyz{<|fim_prefix|>}ab\nc {<|fim_middle|>}"
    assert found == spelt(qwen.tokenizer, layout)
    found = infill_tokens(codestral.tokenizer, place(suffix_first=True), 4096)
    assert found == spelt(codestral.tokenizer, codestral.alone)  # as it always is
    header = "{<|repo_name|>}myproject\n{<|file_sep|>}filename\n"
    found = infill_tokens(qwen.tokenizer, place(suffix_first=True, window=2048), 4096, 64)
    assert found == spelt(qwen.tokenizer, header + layout)


def test_marks_in_a_text_are_text() -> None:
    tokenizer = FAMILIES["StarCoder2"].tokenizer
    found = infill_tokens(tokenizer, Infill("<fim_suffix>", "<fim_middle>"), 4096)
    assert [tokenizer.text(t) in FIM for t in found].count(True) == 3
    assert tokenizer.decode(found, special=True) == (
        "<fim_prefix><fim_suffix><fim_suffix><fim_middle><fim_middle>"
    )


ENDS = {
    "Qwen2.5-Coder": {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"},
    "StarCoder2": {"<fim_pad>", "<repo_name>", "<file_sep>"},
    "Granite": {"<fim_pad>", "<reponame>", "<filename>"},
    "DeepSeek-Coder": set(),
    "CodeGemma": {"<|file_separator|>"},
    "CodeLlama": {"\u2581<EOT>"},
    "Codestral": set(),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_ends_a_middle(name: str) -> None:
    """The marks themselves, and what stands between files; `<file_sep>` ends no chat."""
    tokenizer = FAMILIES[name].tokenizer
    fim = tokenizer.fim
    marks = {fim.prefix, fim.suffix, fim.middle} - {None}
    ends = (fim.ends | tokenizer.eog) - marks - {tokenizer.eos}
    assert {tokenizer.text(token) for token in ends} == ENDS[name]
    assert marks <= fim.ends
    assert tokenizer.id("<file_sep>") not in tokenizer.eog


REAL = {"deepseek-coder": (32016, 32015, 32017), "starcoder": (1, 3, 2), "refact": (1, 3, 2)}


@pytest.mark.parametrize("name", REAL)
def test_real_vocabularies(name: str) -> None:
    tokenizer = restored(VOCABS[name]["vocab"])
    fim = tokenizer.fim
    assert (fim.prefix, fim.suffix, fim.middle) == REAL[name]
    found = infill_tokens(tokenizer, Infill("x", "y"), 4096)
    before, x, suffix, y, middle = found[-5:]
    assert (before, suffix, middle) == REAL[name]
    assert tokenizer.decode([x, y]) == "xy"
    assert found[:-5] == ([tokenizer.bos] if tokenizer.add_bos else [])


@pytest.mark.parametrize(
    ("special", "missing"),
    [
        ((), "prefix, suffix, middle"),
        (("<fim_prefix>", "<fim_suffix>"), "middle"),
        (("[PREFIX]",), "prefix, suffix, middle"),
    ],
)
def test_without_the_tokens(special: tuple[str, ...], missing: str) -> None:
    with pytest.raises(CannotFill, match=f"no token for {missing};"):
        infill_tokens(bpe(*special), place(), 4096)


def test_old_and_new_keys_come_before_texts() -> None:
    for key in ("fim_pre", "prefix"):
        fim = bpe("<x>", *FIM, **{f"{key}_token_id": 257}).fim
        assert (fim.prefix, fim.suffix) == (257, 259)


def long(n_prefix: int, n_suffix: int, extra: int = 0, line: str = "") -> Infill:
    files = [Snippet("e" * extra)] if extra else []
    return Infill("p" * n_prefix, "s" * n_suffix, line, files, window=2048)


def counts(infill: Infill, n_ctx: int, most: int | None) -> tuple[int, ...]:
    """How many letters of prefix, suffix, snippets and line are left."""
    tokenizer = FAMILIES["DeepSeek-Coder"].tokenizer
    found = infill_tokens(tokenizer, infill, n_ctx, most)
    assert len(found) < n_ctx
    return tuple(found.count(tokenizer.id(letter) or 0) for letter in "pseL")


def test_what_is_left_of_long_texts() -> None:
    """Prefix and suffix 3 to 1 of a batch; snippets have what the context has besides, less twice
    the answer. A beginning goes by whole eighths.
    """
    assert counts(long(1536, 510), 8192, 128) == (1536, 510, 0, 0)
    assert counts(long(1537, 9000), 8192, 128) == (1536 - 191, 510, 0, 0)
    assert counts(long(10**6, 10**6, line="L" * 100), 8192, 128)[1::2] == (410, 100)
    room = 8192 - 2048 - 2 * 128
    assert counts(long(0, 0, 9000), 8192, 128)[2] > room * 7 // 8
    assert counts(long(0, 0, 9000), 2048, 64)[2] == 0  # there is no room besides
    # In a short context the batch is what the answer leaves of it.
    first, second, *_ = counts(long(9000, 9000), 256, 64)
    quarter = (256 - 64 - 4) // 4
    assert (second, first > 3 * quarter * 7 // 8) == (quarter - 2, True)
    assert counts(long(9000, 9000), 256, None) == counts(long(9000, 9000), 256, 10**6)
    assert counts(long(9000, 9000, 9000, "L" * 9000), 16, 4)[0] > 0


def test_a_long_prefix_keeps_its_beginning_while_somebody_writes() -> None:
    """Else each letter would move all of them, and all would be read again."""
    tokenizer = FAMILIES["StarCoder2"].tokenizer
    code = "".join(chr(97 + i * i % 23) for i in range(60_000))
    first: list[list[int]] = []
    for n in range(50_000, 50_300, 10):
        found = infill_tokens(tokenizer, Infill(code[:n], "s", window=2048), 2048, 64)
        first.append(found[:1200])
    assert len({tuple(beginning) for beginning in first}) <= 3


def test_the_last_part() -> None:
    assert last_part("abcdefgh", 8) == "abcdefgh"
    assert last_part([*range(100)], 80) == [*range(20, 100)]
    assert last_part([*range(101)], 80) == [*range(30, 101)]
    assert last_part("abc", 0) == ""


def test_texts_that_no_context_holds() -> None:
    tokenizer = FAMILIES["StarCoder2"].tokenizer
    snippets = [Snippet("a"), Snippet("b" * 5_000_000)]
    with pytest.raises(BadSetting, match=r"input_extra\[1\]\.text: 'a text of 5,000,000"):
        infill_tokens(tokenizer, Infill(snippets=snippets, window=2048), 4096)
