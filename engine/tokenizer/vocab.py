"""The vocabulary of a GGUF file: token texts, types and scores, and the tokens with a meaning."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from engine.errors import BadFile
from engine.gguf.metadata import Metadata
from engine.gguf.values import Array
from engine.tokenizer.strings import Strings


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type` of the GGUF specification."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


# Texts that end a generation whatever their type in the file, as llama.cpp has them.
_EOG_TEXTS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
)  # fmt: skip

# Fill-in-the-middle tokens: key (and its old name), then the texts that mean it without a key.
_FIM_TEXTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("fim_pre", "prefix"): (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>",
    ),
    ("fim_suf", "suffix"): (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>",
    ),
    ("fim_mid", "middle"): (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>",
    ),
    ("fim_pad",): ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ("fim_rep",): ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ("fim_sep",): ("<|file_sep|>",),
}  # fmt: skip
_FIM_ENDS = ("fim_pad", "fim_rep", "fim_sep")
# What llama.cpp does not know: Codestral's pair, StarCoder2's marks of files, and what else is
# behind a completion in the training texts of Granite, CodeGemma and CodeLlama.
_FIM_PAIR = {"fim_pre": "[PREFIX]", "fim_suf": "[SUFFIX]"}
_FIM_FILES = {"fim_rep": "<repo_name>", "fim_sep": "<file_sep>"}
_FIM_BEHIND = ("<repo_name>", "<file_sep>", "<filename>", "<|file_separator|>", "\u2581<EOT>")

# Parts of a harmony conversation: to be shown, though the files call them control tokens.
_HARMONY_TEXTS = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")

_NONE = (-1, 0xFFFFFFFF)


@dataclass(frozen=True)
class FimTokens:
    """Tokens for filling in the middle: before the text in front, the text behind, and the answer;
    None where there is none. `repo` and `file` mark a repository's name and a file's. `ends` end
    such an answer, besides what ends any. Where it is a `pair`, the text behind comes first, and
    the answer begins where the text in front ends.
    """

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    repo: int | None = None
    file: int | None = None
    ends: frozenset[int] = frozenset()
    pair: bool = False

    @property
    def missing(self) -> list[str]:
        """Name those of the three that are not there; none where a model can fill in."""
        named = {"prefix": self.prefix, "suffix": self.suffix, "middle": self.middle}
        if self.pair:
            del named["middle"]
        return [name for name, token in named.items() if token is None]


@dataclass
class Vocab:
    """Token texts by id, with their types (one byte each) and scores (none: all zero)."""

    path: str
    texts: Strings = field(repr=False)
    types: bytearray = field(repr=False)
    scores: memoryview = field(repr=False)
    eog: set[int] = field(default_factory=set)
    suppressed: frozenset[int] = frozenset()
    bos: int | None = None
    eos: int | None = None
    unknown: int | None = None
    fim: FimTokens = FimTokens()

    def id(self, text: str) -> int | None:
        """The token of that text; the last one where two have the same."""
        return self.texts.find(text) if text else None

    def of_type(self, *types: TokenType) -> list[int]:
        """The ids of these types, ascending."""
        kinds = np.frombuffer(self.types, np.uint8)
        found: list[int] = np.flatnonzero(np.isin(kinds, types)).tolist()
        return found

    @cached_property
    def byte_ids(self) -> list[int | None]:
        """For each byte its token `<0xHH>`, else the token of that character, else unknown."""
        return [self._byte_id(byte) for byte in range(256)]

    def _byte_id(self, byte: int) -> int | None:
        token = self.id(f"<0x{byte:02X}>")
        if token is None and byte < 128:
            token = self.id(chr(byte))
            return self.unknown if token is None else token
        return token


def load_vocab(meta: Metadata, bos: int | None, eos: int | None, unknown: int | None) -> Vocab:
    """The vocabulary of `meta`; `bos`, `eos` and `unknown` hold where the file does not say.

    BadFile where arrays are missing, of another type or length, or an id lies outside.
    """
    texts = Strings.read(meta.get("tokenizer.ggml.tokens", Array))
    if not texts:
        raise BadFile(meta.path, "'tokenizer.ggml.tokens' is empty")
    size = len(texts)
    scores = _one_each(meta, "tokenizer.ggml.scores", size)
    types = _one_each(meta, "tokenizer.ggml.token_type", size)
    if types is None:
        kinds = bytearray([TokenType.NORMAL]) * size
    else:
        codes = types.ints()
        kinds = bytearray(np.where((codes < 0) | (codes > 6), 0, codes).astype(np.uint8).tobytes())
    points = np.empty(0) if scores is None else scores.numpy()
    vocab = Vocab(meta.path, texts, kinds, points.data)
    vocab.bos = token_of(meta, "bos", size, bos)
    vocab.eos = token_of(meta, "eos", size, eos)
    vocab.unknown = token_of(meta, "unknown", size, unknown)
    _find_fim(meta, vocab)
    _find_ends(meta, vocab)
    never = meta.get("tokenizer.ggml.suppress_tokens", Array, None)
    if never is not None:  # rows of a tower stand behind such; converters may list too many
        vocab.suppressed = frozenset(t for t in never.ints().tolist() if 0 <= t < size)
    return vocab


def _one_each(meta: Metadata, key: str, size: int) -> Array | None:
    values = meta.get(key, Array, None)
    if values is not None and len(values) != size:
        raise BadFile(meta.path, f"{key!r} has {len(values)} values for {size} tokens")
    return values


def token_of(meta: Metadata, name: str, size: int, default: int | None = None) -> int | None:
    """The id under `tokenizer.ggml.NAME_token_id`, else `default` where it exists; None for none.

    BadFile where it lies outside.
    """
    key = f"tokenizer.ggml.{name}_token_id"
    token = meta.get(key, int, None)
    if token is None:
        return default if default is not None and default < size else None
    return None if token in _NONE else _inside(meta, key, token, size)


def _inside(meta: Metadata, key: str, token: int, size: int) -> int:
    if not 0 <= token < size:
        raise BadFile(meta.path, f"{key!r} is {token}, but there are {size} tokens")
    return token


def _find_fim(meta: Metadata, vocab: Vocab) -> None:
    size = len(vocab.texts)
    has: dict[str, int] = {}
    for names, texts in _FIM_TEXTS.items():
        tokens = [token_of(meta, name, size) for name in names]
        found = next((token for token in tokens if token is not None), None)
        if found is None:
            found = next(iter(known(vocab, texts)), None)
            if found is None:
                continue
            vocab.types[found] = TokenType.CONTROL
        has[names[0]] = found
        if names[0] in _FIM_ENDS:
            vocab.eog.add(found)
    vocab.fim = _fim(vocab, has)


def _fim(vocab: Vocab, has: dict[str, int]) -> FimTokens:
    pair = {name: vocab.id(text) for name, text in _FIM_PAIR.items()}
    is_pair = "fim_pre" not in has and None not in pair.values()
    others = {name: vocab.id(text) for name, text in _FIM_FILES.items()} | (pair if is_pair else {})
    has = {name: token for name, token in others.items() if token is not None} | has
    return FimTokens(
        prefix=has.get("fim_pre"),
        suffix=has.get("fim_suf"),
        middle=has.get("fim_mid"),
        repo=has.get("fim_rep"),
        file=has.get("fim_sep"),
        ends=frozenset([*has.values(), *known(vocab, _FIM_BEHIND)]),
        pair=is_pair,
    )


def _find_ends(meta: Metadata, vocab: Vocab) -> None:
    size = len(vocab.texts)
    for token in known(vocab, _EOG_TEXTS):
        vocab.eog.add(token)
        vocab.types[token] = TokenType.CONTROL
    for token in known(vocab, _HARMONY_TEXTS):
        vocab.types[token] = TokenType.USER_DEFINED
    named = (vocab.eos, token_of(meta, "eot", size), token_of(meta, "eom", size))
    vocab.eog |= {token for token in named if token is not None}
    key = "tokenizer.ggml.eos_token_ids"
    listed = meta.get(key, Array, None)
    if listed is not None:
        vocab.eog |= {_inside(meta, key, int(token), size) for token in listed.ints()}

    # In harmony `<|end|>` closes a part, not the answer; Gemma 4 knows `</s>` as markup.
    ends = {vocab.texts[token] for token in vocab.eog}
    calls = ends & {"<|call|>", "<|calls|>"}
    if "<|end|>" in ends and calls and ends & {"<|return|>", "<|flush|>"}:
        _not_an_end(vocab, "<|end|>", TokenType.USER_DEFINED)
    if "</s>" in ends and "<|tool_response>" in ends:
        _not_an_end(vocab, "</s>", TokenType.NORMAL)


def _not_an_end(vocab: Vocab, text: str, type: TokenType) -> None:
    for token in known(vocab, (text,)):
        vocab.eog.discard(token)
        vocab.types[token] = type


def known(vocab: Vocab, texts: Iterable[str]) -> list[int]:
    """The tokens of those texts that have one."""
    return [token for token in map(vocab.id, texts) if token is not None]
