"""Cutting the special tokens out of a text before the rest is tokenised."""

from collections.abc import Iterable, Iterator

from engine.gguf.metadata import Metadata
from engine.tokenizer.vocab import TokenType, Vocab, known

Fragment = str | int

# What C calls a space: the attributes below strip these and no others.
_SPACES = " \t\n\v\f\r"

# Texts of a special token and of a text are compared by this many first characters beforehand.
_HEAD = 3


class SpecialTokens:
    """The texts that stand for one token each, longest first.

    User-defined tokens always count; control tokens and the unknown token only where special
    tokens are parsed. `strip_left` and `strip_right` tokens swallow the spaces beside them.
    """

    def __init__(
        self, vocab: Vocab, strip_left: Iterable[int] = (), strip_right: Iterable[int] = ()
    ) -> None:
        self._left, self._right = frozenset(strip_left), frozenset(strip_right)
        always = frozenset(vocab.of_type(TokenType.USER_DEFINED))
        marked = vocab.of_type(TokenType.CONTROL, TokenType.UNKNOWN)
        texts = ((vocab.texts[token], token) for token in sorted([*marked, *always]))
        # Equally long texts stay in the order of their ids.
        self._all = sorted(
            ((text, token) for text, token in texts if text), key=lambda t: -len(t[0].encode())
        )
        self._always = [(text, token) for text, token in self._all if token in always]

    @property
    def swallows(self) -> bool:
        """True if some of them take spaces beside them along."""
        return bool(self._left or self._right)

    def split(self, text: str, parse_special: bool) -> list[Fragment]:
        """`text` as text fragments and token ids, in order.

        A longer token's text is cut out everywhere before a shorter one is looked for.
        """
        taken: bytearray | None = None
        found: list[tuple[int, int, int]] = []  # start, end, token
        for special, token in self._inside(text, parse_special):
            if taken is None:
                taken = bytearray(len(text))
            for start in _places(text, special, taken):
                end = start + len(special)
                before, after = start, end
                while token in self._left and before and not taken[before - 1]:
                    if text[before - 1] not in _SPACES:
                        break
                    before -= 1
                while token in self._right and after < len(text) and not taken[after]:
                    if text[after] not in _SPACES:
                        break
                    after += 1
                taken[before:after] = b"\1" * (after - before)
                found.append((before, after, token))
        return _fragments(text, sorted(found))

    def _inside(self, text: str, parse_special: bool) -> Iterator[tuple[str, int]]:
        # Thousands of tokens share few beginnings: most are ruled out by one search for many.
        heads: dict[str, bool] = {}
        for special, token in self._all if parse_special else self._always:
            head = special[:_HEAD]
            present = heads.get(head)
            if present is None:
                present = heads[head] = head in text
            if present and special in text:
                yield special, token


def _places(text: str, special: str, taken: bytearray) -> Iterator[int]:
    size = len(special)
    start = text.find(special)
    while start >= 0:
        last = taken.rfind(1, start, start + size)
        if last < 0:
            yield start
            last = taken.rfind(1, start, start + size)
        start = text.find(special, max(last, start) + 1)


def _fragments(text: str, found: list[tuple[int, int, int]]) -> list[Fragment]:
    fragments: list[Fragment] = []
    end = 0
    for before, after, token in found:
        if before > end:
            fragments.append(text[end:before])
        fragments.append(token)
        end = after
    if end < len(text):
        fragments.append(text[end:])
    return fragments


def special_tokens(meta: Metadata, vocab: Vocab) -> SpecialTokens:
    """Read the special tokens of a file. GGUF has no attributes for stripping: llama.cpp knows them
    by name.
    """
    name = meta.get("general.name", str, "").lower()
    left: list[str] = []
    right: list[int] = []
    if any(part in name for part in ("phi-3", "phi3")):
        kinds = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
        plain = ("<unk>", "<s>", "<|endoftext|>")
        right = [t for t in vocab.of_type(*kinds) if vocab.texts[t] not in plain]
        right += known(vocab, ("</s>",))
    elif "modern-bert" in name:
        left = ["[MASK]"]
    elif (
        meta.get("tokenizer.ggml.pre", str, "") in ("jina-v2-de", "jina-v2-es", "jina-v2-code")
        or meta.get("general.architecture", str, "") == "nomic-bert-moe"
    ):
        left = ["<mask>"]
    return SpecialTokens(vocab, known(vocab, left), right)
