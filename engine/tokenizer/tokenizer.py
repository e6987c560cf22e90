"""Text to token ids and back, as llama.cpp does it for the same GGUF file."""

import codecs
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engine.errors import TokenizerError, UnsupportedModel
from engine.gguf.metadata import Metadata
from engine.tokenizer.special import SpecialTokens, special_tokens
from engine.tokenizer.vocab import TokenType, Vocab, load_vocab, token_of
from engine.tokenizer.words import Pause, no_pause


class StreamDecoder:
    """Text of tokens as they come; a character is given out once all its bytes are there.

    Bytes that cannot become a character any more are shown as U+FFFD.
    """

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that `token` completes; TokenizerError for an id outside the vocabulary."""
        return self._utf8.decode(self._piece(token))

    def flush(self) -> str:
        """Return the rest of an incomplete character; the decoder can then start afresh."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text


_AS_WRITTEN = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
_SPACES = " \t\n\v\f\r"


@runtime_checkable
class Spelling(Protocol):
    """An encoder that changes no text before it is cut, but for how letters are written."""

    @property
    def left_out(self) -> bytes | None: ...
    def spelt(self, text: str) -> bytes: ...


@dataclass(frozen=True)
class LetterWeights:
    """The share of a token that each byte of a spelt text takes at least."""

    spelt: Callable[[str], bytes]
    of_bytes: NDArray[np.float64]


def letter_weights(vocab: Vocab, encoder: object, swallows: bool) -> LetterWeights | None:
    """Return the weights of a vocabulary's letters; None for an encoder that may leave any letter
    out. Letters without a token count nothing, nor do spaces where special tokens swallow them.
    """
    left_out = encoder.left_out if isinstance(encoder, Spelling) else None
    if not isinstance(encoder, Spelling) or left_out is None:
        return None
    data, bounds = np.frombuffer(vocab.texts.data, np.uint8), np.asarray(vocab.texts.bounds)
    sizes = (bounds[1:] - bounds[:-1]).astype(np.int64)
    longest = np.ones(256, np.int64)
    np.maximum.at(longest, data, np.repeat(sizes, sizes))
    for token in vocab.of_type(*_AS_WRITTEN):  # their texts are not spelt in the file
        spelt = np.frombuffer(encoder.spelt(vocab.texts[token]), np.uint8)
        np.maximum.at(longest, spelt, spelt.size)
    weights = 1.0 / longest
    nothing = left_out + (encoder.spelt(_SPACES) if swallows else b"")
    weights[np.frombuffer(nothing, np.uint8)] = 0.0
    return LetterWeights(encoder.spelt, weights)


FIRST_ALIKE, MOST_MORE = 5, 128
"""From which token on two vocabularies are compared, and by how many they may differ in size."""
KINDS = ("bert", "gemma4", "gpt2", "llama", "plamo2", "rwkv", "t5")
DOUBLED = ("jina-v1-en", "jina-v2-code", "roberta-bpe")
"""Pre-tokenizers of models that were trained with EOS and SEP between two texts, as RoBERTa."""

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
_MARKED = (TokenType.CONTROL, TokenType.UNKNOWN)


class PairMarks(NamedTuple):
    """Tokens before, between and after two texts that are read together, as cross encoders do."""

    before: Sequence[int]
    between: Sequence[int]
    after: Sequence[int]


class Encoder(Protocol):
    """How text between special tokens is turned into ids, and token texts into bytes."""

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]: ...
    def text_bytes(self, text: str) -> bytes: ...


# Likely tokens are the same few thousands over and over.
_KEPT = 1 << 12


class Tokenizer:
    """The tokenizer of one file.

    `add_bos` and `add_eos` say whether `encode` puts these tokens around a text, `eog` are the
    ids that end a generation, `suppressed` those that no answer may have, `fim` those between
    which an answer fills in a text, `pair` the marks of two texts.
    """

    def __init__(
        self,
        vocab: Vocab,
        encoder: Encoder,
        special: SpecialTokens,
        *,
        add_bos: bool,
        add_eos: bool,
        space_prefix: bool,
        separator: int | None = None,
    ) -> None:
        self._vocab, self._encoder, self._special = vocab, encoder, special
        self._space_prefix = space_prefix
        self.bos, self.eos = vocab.bos, vocab.eos
        self.eog = frozenset(vocab.eog)
        self.fim = vocab.fim
        self.suppressed = vocab.suppressed
        self.add_bos = add_bos and vocab.bos is not None
        self.add_eos = add_eos and vocab.eos is not None
        self.shown = lru_cache(_KEPT)(self._shown)
        self._pause: Pause = no_pause
        begins = [self.bos] if self.bos is not None and self.add_bos else []
        ends = [self.eos] if self.eos is not None and self.add_eos else []
        self.pair = PairMarks(begins, ends + ([] if separator is None else [separator]), ends)

    @property
    def size(self) -> int:
        """Tokens in the vocabulary."""
        return len(self._vocab.texts)

    def difference(self, other: "Tokenizer") -> str:
        """The first way in which another vocabulary differs, in which its tokens would not be read
        as these; "" for none. As llama.cpp, sizes may differ a little, and the first tokens.
        """
        if abs(self.size - other.size) > MOST_MORE:
            return f"{other.size} tokens, not {self.size}"
        for name, mine, its in (
            ("the token at the beginning", (self.add_bos, self.bos), (other.add_bos, other.bos)),
            ("the token at the end", (self.add_eos, self.eos), (other.add_eos, other.eos)),
        ):
            if mine[0] != its[0] or (mine[0] and mine[1] != its[1]):
                return f"{name} is another one"
        for token in range(FIRST_ALIKE, min(self.size, other.size)):
            if self._vocab.texts[token] != other._vocab.texts[token]:
                theirs, ours = other.shown(token), self.shown(token)
                return f"token {token} is {theirs!r}, not {ours!r}"
        return ""

    def pausing(self, pause: Pause) -> Self:
        """The same tokenizer, but calling `pause` again and again while it encodes."""
        other = copy(self)
        other._pause = pause
        return other

    def least(self, text: str) -> int:
        """A number of tokens that `encode` surely gives at least, found without encoding: no token
        stands for more letters than the longest that has any of them. 0 where none is known.
        """
        weights = self._weights
        if weights is None:
            return 0
        spelt = np.frombuffer(weights.spelt(_LONE_SURROGATES.sub("\ufffd", text)), np.uint8)
        return int(np.bincount(spelt, minlength=256) @ weights.of_bytes)

    @cached_property
    def _weights(self) -> "LetterWeights | None":
        return letter_weights(self._vocab, self._encoder, self._special.swallows)

    def encode(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        continues: bool = False,
    ) -> list[int]:
        """The ids of `text`.

        `add_special` adds BOS and EOS where the file wants them. `parse_special` takes the texts
        of control tokens for these tokens; user-defined tokens are always taken. Where it
        `continues` a text, no space is put in front. Halves of surrogate pairs become U+FFFD.
        """
        text = _LONE_SURROGATES.sub("\ufffd", text)
        ids: list[int] = []
        after_special = not continues
        for fragment in self._special.split(text, parse_special):
            if isinstance(fragment, int):
                ids.append(fragment)
            else:
                prefix = " " if self._space_prefix and after_special else ""
                found = self._encoder.encode(prefix + fragment, self._pause)
                if ids:
                    ids += found
                else:  # a long text is in memory once
                    ids = found
            after_special = isinstance(fragment, int)
        if add_special and self.add_bos and self.bos is not None:
            ids.insert(0, self.bos)
        if add_special and self.add_eos and self.eos is not None:
            ids.append(self.eos)
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a rendered chat prompt: one BOS where the file wants it, written or not."""
        ids = self.encode(text, add_special=False)
        if self.add_bos and self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def fill(self, form: str, texts: Mapping[str, str]) -> list[int]:
        """The ids of a form in which each `{name}` stands for the text of that name. Control tokens
        are read in the form alone, never in a text.
        """
        ids: list[int] = []
        place = re.compile("|".join(re.escape(f"{{{name}}}") for name in texts))
        for fragment in self._special.split(form, parse_special=True):
            if isinstance(fragment, int):
                ids.append(fragment)
            else:
                filled = place.sub(lambda found: texts[found[0][1:-1]], fragment)
                ids += self.encode(filled, add_special=False, parse_special=False)
        return ids

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of `ids`; what `encode` put in front of it is left out again.

        Control tokens show only with `special`; the others always do. TokenizerError for an id
        outside the vocabulary.
        """
        decoder = self.stream(special, whole=True)
        return "".join([decoder.push(token) for token in ids]) + decoder.flush()

    def stream(
        self, special: bool = False, whole: bool = False, shown: Container[int | None] = ()
    ) -> StreamDecoder:
        """A decoder for ids that come one by one; control tokens among `shown` show always.

        `whole` is for ids that `encode` made from a whole text: the space that it puts in front
        is dropped. A generated continuation keeps it.
        """
        after_special = whole and self._space_prefix

        def piece(token: int) -> bytes:
            nonlocal after_special
            data = self.piece(token, special or token in shown)
            if after_special and data.startswith(b" ") and not self._cut_out(token):
                data = data[1:]
            after_special = whole and self._space_prefix and self._cut_out(token)
            return data

        return StreamDecoder(piece)

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes that `token` stands for; none for control tokens unless `special`."""
        kind = self.token_type(token)
        text = self._vocab.texts[token]
        if kind in _MARKED:
            return text.encode() if special else b""
        if kind == TokenType.USER_DEFINED:
            return text.encode()
        if kind == TokenType.NORMAL:
            return self._encoder.text_bytes(text)
        if kind == TokenType.BYTE:
            return _byte(text)
        return b""

    def _shown(self, token: int) -> str:
        """A token as it reads by itself, with the space in front of a word."""
        decoder = self.stream(special=True)
        return decoder.push(token) + decoder.flush()

    def half(self, token: int) -> bytes:
        """The bytes of a token that by itself is no whole text; none of one that is."""
        return self.piece(token, special=True) if "\ufffd" in self.shown(token) else b""

    def text(self, token: int) -> str:
        """The text of `token` as the file has it."""
        self.token_type(token)
        return self._vocab.texts[token]

    def id(self, text: str) -> int | None:
        """The token of exactly that text, if there is one."""
        return self._vocab.id(text)

    def token_type(self, token: int) -> TokenType:
        """Its type; TokenizerError for an id outside the vocabulary."""
        if not 0 <= token < self.size:
            raise TokenizerError(f"token {token} does not exist; the vocabulary has {self.size}")
        return TokenType(self._vocab.types[token])

    def _cut_out(self, token: int) -> bool:
        return self.token_type(token) in (*_MARKED, TokenType.USER_DEFINED)


def _byte(text: str) -> bytes:
    try:
        return bytes.fromhex(text[3:5])
    except ValueError:
        return b""


def load_tokenizer(meta: Metadata) -> Tokenizer:
    """The tokenizer of a file.

    UnsupportedModel for a kind or a pre-tokenizer without code here, BadFile where arrays are
    missing, do not fit together, or name tokens that do not exist.
    """
    kind = meta.get("tokenizer.ggml.model", str)
    if kind == "llama":
        return _sentence_piece(meta)
    if kind in ("gpt2", "gemma4"):
        return _byte_pairs(meta, kind)
    if kind == "bert":
        return _word_piece(meta)
    if kind == "t5":
        return _unigram(meta)
    if kind == "rwkv":
        return _longest_match(meta)
    if kind == "plamo2":
        return _cheapest_path(meta)
    raise UnsupportedModel("tokenizer", kind, KINDS)


def _separator(meta: Metadata, vocab: Vocab, usual: bool = False) -> int | None:
    """The token that stands between two texts, besides EOS; None where there is none. `usual`
    counts where the file does not say.
    """
    if not meta.get("tokenizer.ggml.add_sep_token", bool, usual):
        return None
    return token_of(meta, "seperator", len(vocab.texts), vocab.eos)


def _sentence_piece(meta: Metadata) -> Tokenizer:
    from engine.tokenizer.merge import SentencePiece

    vocab = load_vocab(meta, bos=1, eos=2, unknown=0)
    return Tokenizer(
        vocab,
        SentencePiece(vocab),
        special_tokens(meta, vocab),
        add_bos=meta.get("tokenizer.ggml.add_bos_token", bool, True),
        add_eos=meta.get("tokenizer.ggml.add_eos_token", bool, False),
        space_prefix=meta.get("tokenizer.ggml.add_space_prefix", bool, True),
        separator=_separator(meta, vocab),
    )


def _byte_pairs(meta: Metadata, kind: str) -> Tokenizer:
    # Imported here: its patterns need `regex`, which a SentencePiece file does not.
    from engine.tokenizer.bpe import byte_pairs
    from engine.tokenizer.patterns import pre_tokenizer

    name = "gemma4" if kind == "gemma4" else meta.get("tokenizer.ggml.pre", str, "")
    pre = pre_tokenizer(name)
    vocab = load_vocab(meta, bos=None, eos=None, unknown=None)
    # Gemma 4 needs its BOS, and files exist that deny it; llama.cpp holds its kin to that too.
    add_bos = not pre.byte_letters or meta.get("tokenizer.ggml.add_bos_token", bool, pre.add_bos)
    return Tokenizer(
        vocab,
        byte_pairs(meta, vocab, pre),
        special_tokens(meta, vocab),
        add_bos=add_bos,
        add_eos=meta.get("tokenizer.ggml.add_eos_token", bool, False),
        space_prefix=False,
        separator=_separator(meta, vocab, name in DOUBLED),
    )


def _word_piece(meta: Metadata) -> Tokenizer:
    from engine.tokenizer.wordpiece import WordPiece

    vocab = load_vocab(meta, bos=101, eos=None, unknown=100)
    # A text ends with [SEP], which the key misspells; it ends no answer.
    size = len(vocab.texts)
    vocab.eos = token_of(meta, "seperator", size, 102 if vocab.eos is None else vocab.eos)
    lowercase = meta.get("tokenizer.ggml.normalizer.lowercase", bool, True)
    strip = meta.get("tokenizer.ggml.normalizer.strip_accents", bool, lowercase)
    return Tokenizer(
        vocab,
        WordPiece(vocab, lowercase, strip),
        special_tokens(meta, vocab),
        add_bos=True,
        add_eos=True,
        space_prefix=True,
        # BERT was trained with [SEP] after either text; llama.cpp leaves out the last one where a
        # file says nothing.
        separator=_separator(meta, vocab),
    )


def _unigram(meta: Metadata) -> Tokenizer:
    from engine.tokenizer.unigram import unigram

    vocab = load_vocab(meta, bos=None, eos=1, unknown=2)
    return Tokenizer(
        vocab,
        unigram(meta, vocab),
        special_tokens(meta, vocab),
        add_bos=meta.get("tokenizer.ggml.add_bos_token", bool, False),
        add_eos=meta.get("tokenizer.ggml.add_eos_token", bool, True),
        space_prefix=False,
        # XLM-RoBERTa was trained with both; files of 2024 do not say so.
        separator=_separator(meta, vocab, "tokenizer.ggml.seperator_token_id" in meta),
    )


def _longest_match(meta: Metadata) -> Tokenizer:
    from engine.tokenizer.longest import LongestMatch

    vocab = load_vocab(meta, bos=None, eos=None, unknown=None)
    return Tokenizer(
        vocab,
        LongestMatch(vocab),
        special_tokens(meta, vocab),
        add_bos=meta.get("tokenizer.ggml.add_bos_token", bool, False),
        add_eos=meta.get("tokenizer.ggml.add_eos_token", bool, False),
        space_prefix=False,
    )


def _cheapest_path(meta: Metadata) -> Tokenizer:
    from engine.tokenizer.cheapest import CheapestPath

    vocab = load_vocab(meta, bos=1, eos=2, unknown=0)
    return Tokenizer(
        vocab,
        CheapestPath(vocab),
        special_tokens(meta, vocab),
        add_bos=meta.get("tokenizer.ggml.add_bos_token", bool, False),
        add_eos=meta.get("tokenizer.ggml.add_eos_token", bool, False),
        space_prefix=False,
    )
