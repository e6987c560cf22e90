"""The next token of an answer: drawn from logits, held to a form, with how likely it was."""

from collections.abc import Callable, Container

import numpy as np
from numpy.typing import NDArray

from engine.protocol import Alternative, Generate, TokenInfo
from engine.runner.drafting.drafts import Draft, Drafts
from engine.runner.drafting.economy import Chances
from engine.runner.forms.guide import Guide, rule_of
from engine.runner.loading import LoadedModel
from engine.runner.prompt import Prompt
from engine.runner.stepper import Logits
from engine.sampling.cuts import Candidates, log_softmax, top_k
from engine.sampling.sampler import Sampler
from engine.sampling.stops import LoopStop
from engine.tokenizer import Tokenizer

Row = Logits | Candidates
"""Logits [V] that a token is drawn from, or the best of them."""


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


class Drawing:
    """The sampler with the tokens it has seen, and the `guide` that holds the answer to a form, if
    one was requested; `so_far` is what there is of the answer. Raises `BadForm`, `BadSetting`.
    """

    def __init__(self, model: LoadedModel, request: Generate, prompt: Prompt, so_far: str) -> None:
        self._tokenizer, self._n_top = model.tokenizer, request.logprobs
        self._n_vocab = model.built.n_vocab
        never = [token for token in model.tokenizer.suppressed if token < self._n_vocab]
        self.sampler = Sampler(request.sampling, request.bias, self._n_vocab, never)
        self.seen = [item for item in prompt.items if isinstance(item, int)]
        filled = model.tokenizer.fim.ends if request.infill is not None else frozenset()
        self._ends: Container[int] = () if request.endless else model.tokenizer.eog | filled
        rule = rule_of(model.tokenizer, model.template, request, prompt.opened)
        self.guide = None if rule is None else Guide(model.form_words, rule, so_far)
        free = rule is None and not request.endless
        self._loops = LoopStop() if request.stop_loops and free else None
        self.drafts: Drafts | None = None
        self._logits: Logits = np.empty(0, np.float32)

    def draws_from(self, n: int) -> bool:
        """True if the `n` largest logits are all that is needed for the next token."""
        plain = self.guide is None and self.drafts is None and not self._n_top
        return plain and self.sampler.draws_from(n, self._n_vocab)

    def draw(self, row: Row) -> int:
        """The token behind logits [V], or behind the largest of them. Raises `FormFailed`."""
        guide = self.guide
        if isinstance(row, Candidates):
            token = self.sampler.choose(row)
        else:
            self._logits = row
            token = self.sampler.sample(guide.masked(row) if guide else row, self.seen)
        if guide is not None:
            guide.take(token)
        self.seen.append(token)
        if self.drafts is not None:
            self.drafts.drew(token)
        return token

    def speculate(
        self,
        chances: Chances,
        most: int,
        kinds: frozenset[str],
        model: Callable[[int], Draft] | None,
    ) -> None:
        """Make drafts of at most so many tokens from now on."""
        self.drafts = Drafts(self.seen, self.guide, chances, most, kinds, model)

    def repeats(self, token: int) -> bool:
        """True if the answer repeats itself with the token that was drawn."""
        return self._loops is not None and self._loops.loops_with(token)

    def ends(self, token: int) -> bool:
        """True if a token is no text but an answer's end."""
        return token in self._ends

    def is_last(self, token: int) -> bool:
        """True if nothing may follow the token that was drawn."""
        return self.ends(token) or (self.guide is not None and self.guide.is_over)

    def saw(self, text: str) -> None:
        """The answer's text goes on so; there is time now. Raises `FormFailed`."""
        if self.guide is not None:
            self.guide.saw(text)
            self.guide.prepare()

    def info(self, token: int) -> TokenInfo:
        """Return the log-probabilities for the last sampled token."""
        if not self._n_top:
            return TokenInfo(token)
        return token_info(self._tokenizer, self._logits, token, self._n_top)
