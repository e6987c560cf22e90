"""WordPiece, `tokenizer.ggml.model` = "bert": words by their longest known beginnings.

Devlin et al. 2018; normalising and cutting as in the `tokenizers` library's BertNormalizer and
BertPreTokenizer. A file marks where words start with U+2581, not what goes on with ##.
"""

import unicodedata

from engine.tokenizer.vocab import Vocab
from engine.tokenizer.words import SPACE, Pause, WordCache, no_pause

LONGEST_WORD = 100
"""Characters; longer ones are unknown, as in the original."""

_CJK = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPiece:
    """Tokens of text without special tokens."""

    def __init__(self, vocab: Vocab, lowercase: bool, strip_accents: bool) -> None:
        self._vocab = vocab
        self._lowercase, self._strip_accents = lowercase, strip_accents
        self._longest = max((len(vocab.texts[i]) for i in range(len(vocab.texts))), default=0)
        self._words = WordCache(self._word)

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; a word that does not consist of tokens is one unknown token."""
        return self._words.ids(self.words(text), pause)

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        return text.replace(SPACE, " ").encode()

    def words(self, text: str) -> list[str]:
        """The words of `text`, normalised; punctuation and CJK characters are words."""
        cleaned = "".join(map(_cleaned, text))
        if self._strip_accents:
            marked = unicodedata.normalize("NFD", cleaned)
            cleaned = "".join(c for c in marked if unicodedata.category(c) != "Mn")
        if self._lowercase:
            cleaned = "".join(map(str.lower, cleaned))  # one by one: no final sigma
        return "".join(f" {c} " if _stands_alone(c) else c for c in cleaned).split(" ")

    def _word(self, word: str, pause: Pause) -> list[int]:
        if not word:
            return []
        unknown = [] if self._vocab.unknown is None else [self._vocab.unknown]
        if len(word) > LONGEST_WORD:
            return unknown
        rest, ids = SPACE + word, []
        while rest:
            ends = range(min(len(rest), self._longest), 0, -1)
            tokens = ((self._vocab.id(rest[:end]), end) for end in ends)
            found = next(((token, end) for token, end in tokens if token is not None), None)
            if found is None:
                return unknown
            ids.append(found[0])
            rest = rest[found[1] :]
        return ids


def _cleaned(character: str) -> str:
    """White space as a space, and nothing for what cannot be seen."""
    if character.isspace():
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
        return ""
    return f" {character} " if _is_cjk(ord(character)) else character


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def _is_cjk(code: int) -> bool:
    return any(first <= code <= last for first, last in _CJK)
