"""Which token comes next in an answer."""

from collections.abc import Container

import numpy as np

from engine.protocol import Generate, TokenInfo
from engine.runner.answering.infos import token_info
from engine.runner.forms.guide import Guide, rule_of
from engine.runner.loading import LoadedModel
from engine.runner.prompt import Prompt
from engine.runner.stepper import Logits
from engine.sampling.sampler import Sampler
from engine.sampling.stops import LoopStop


class Drawing:
    """The sampler with the tokens it has seen, and the `guide` that holds the answer to a form, if
    one was asked for; `so_far` is what there is of the answer. Raises `BadForm`, `BadSetting`.
    """

    def __init__(self, model: LoadedModel, request: Generate, prompt: Prompt, so_far: str) -> None:
        self._tokenizer, self._n_top = model.tokenizer, request.logprobs
        self.sampler = Sampler(request.sampling, request.bias, model.built.n_vocab)
        self._seen = [item for item in prompt.items if isinstance(item, int)]
        self._ends: Container[int] = () if request.endless else model.tokenizer.eog
        rule = rule_of(model.tokenizer, model.template, request, prompt.opened)
        self.guide = None if rule is None else Guide(model.form_words, rule, so_far)
        free = rule is None and not request.endless
        self._loops = LoopStop() if request.stop_loops and free else None
        self._logits: Logits = np.empty(0, np.float32)

    def draw(self, logits: Logits) -> int:
        """The token behind logits [V]. Raises `FormFailed`."""
        self._logits, guide = logits, self.guide
        token = self.sampler.sample(guide.masked(logits) if guide else logits, self._seen)
        if guide is not None:
            guide.take(token)
        self._seen.append(token)
        return token

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
