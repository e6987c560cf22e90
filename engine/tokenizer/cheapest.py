"""Cheapest paths, `tokenizer.ggml.model` = "plamo2": the tokens whose costs have the least sum.

Preferred Networks 2025, PLaMo 2 and 3. Costs are whole numbers, a text is cut as a whole from its
end, and a character without a token costs most and becomes the tokens of its bytes.
"""

from functools import cached_property

import numpy as np

from engine.errors import BadFile
from engine.tokenizer.vocab import TokenType, Vocab
from engine.tokenizer.words import PAUSE_EVERY, Pause, no_pause

_STEPS = 1e4
"""Costs per unit of a score."""
_UNKNOWN, _TOO_MUCH = 10_000_000, 20_000_000
"""The cost of a character without a token, and one from which on a token is never taken."""
_START = 2
"""Characters by which tokens are found."""
_MATCHED = (TokenType.NORMAL, TokenType.USER_DEFINED)


class CheapestPath:
    """Tokens of text without special tokens."""

    def __init__(self, vocab: Vocab) -> None:
        if not len(vocab.scores):
            problem = "metadata has no 'tokenizer.ggml.scores'; a plamo2 one needs it"
            raise BadFile(vocab.path, problem)
        self._vocab = vocab

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`, without a mark of the byte order in front. Of paths that cost the
        same the one with the longer token is taken, at each character from the end.
        """
        text = text.removeprefix("\ufeff")
        costs, sizes = self._tokens
        n = len(text)
        sums, taken = [0] * (n + 1), [0] * n
        for at in range(n - 1, -1, -1):
            if at % PAUSE_EVERY == 0:
                pause()
            least, best = sums[at + 1] + _UNKNOWN, 0
            for size in sizes.get(text[at : at + _START], (1,)):
                if at + size > n:
                    break
                cost = costs.get(text[at : at + size])
                if cost is not None and sums[at + size] + cost <= least:
                    least, best = sums[at + size] + cost, size
            sums[at], taken[at] = least, best
        return self._ids(text, taken)

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        return text.encode()

    def _ids(self, text: str, taken: list[int]) -> list[int]:
        """The tokens of the sizes `taken` at each character, 0 for those of its bytes."""
        ids: list[int | None] = []
        at = 0
        while at < len(text):
            if size := taken[at]:
                ids.append(self._vocab.id(text[at : at + size]))
            else:
                ids += [self._vocab.byte_ids[byte] for byte in text[at].encode()]
            at += size or 1
        return [token for token in ids if token is not None]

    @cached_property
    def _tokens(self) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
        """Costs of tokens by their texts, and by their first characters how long such are, 1 first
        and then rising.
        """
        scores = np.asarray(self._vocab.scores, np.float64)
        sizes: dict[str, set[int]] = {}
        costs: dict[str, int] = {}
        for token in self._vocab.of_type(*_MATCHED):
            text, cost = self._vocab.texts[token], -scores[token] * _STEPS
            if text and abs(cost) < _TOO_MUCH:
                costs[text] = int(np.copysign(np.floor(abs(cost) + 0.5), cost))
                if len(text) >= _START:
                    sizes.setdefault(text[:_START], {1}).add(len(text))
        return costs, {start: tuple(sorted(each)) for start, each in sizes.items()}
