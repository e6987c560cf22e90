"""Log-probabilities of tokens and of their alternatives."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Alternative, TokenInfo
from engine.runner.pictures.items import Item
from engine.sampling.cuts import log_softmax, top_k
from engine.tokenizer import Tokenizer


def token_info(
    tokenizer: Tokenizer, logits: NDArray[np.float32], token: int, n_top: int
) -> TokenInfo:
    """Return a token's log-probability under logits [V], with `n_top` alternatives."""
    best = top_k(logits, min(n_top, logits.size)).ids if n_top else np.empty(0, np.int64)
    logp = log_softmax(logits, np.append(best, token))
    shown, half = tokenizer.shown, tokenizer.half
    top = [
        Alternative(i, shown(i), p, half(i))
        for i, p in zip(best.tolist(), logp.tolist(), strict=False)
    ]
    return TokenInfo(token, float(logp[-1]), shown(token), top, half(token))


class PromptInfos:
    """How likely each token of a prompt is after those before it; nothing comes before the first.
    Rows of pictures are left out, and count for what follows them.
    """

    def __init__(self, tokenizer: Tokenizer, items: Sequence[Item], n_top: int) -> None:
        self._tokenizer, self._items, self._n_top = tokenizer, items, n_top
        self.infos: list[TokenInfo] = []
        self._at = 0
        if items and isinstance(items[0], int):
            self.infos.append(
                TokenInfo(items[0], None, tokenizer.shown(items[0]), [], tokenizer.half(items[0]))
            )

    def add(self, rows: NDArray[np.float32]) -> None:
        """Logits [t, V] behind the next t items."""
        following = self._items[self._at + 1 : self._at + 1 + len(rows)]
        self._at += len(rows)
        for row, item in zip(rows, following, strict=False):
            if isinstance(item, int):
                self.infos.append(token_info(self._tokenizer, row, item, self._n_top))
