"""The text of an answer on its way to who asked."""

from collections.abc import Iterator

from engine.answers.forms import MARKS
from engine.protocol import Generate, Reply, TokenInfo
from engine.runner.forms.apart import Apart, Plain
from engine.runner.loading import LoadedModel
from engine.runner.prompt import Prompt, beyond_prefix
from engine.sampling.stops import StopFilter


class Words:
    """Whole characters, none of a stop string or behind it, thoughts and calls apart where that was
    asked for. `begun` is what the prompt has begun of the answer, which belongs to it.
    """

    def __init__(self, model: LoadedModel, request: Generate, prompt: Prompt) -> None:
        marks = {model.tokenizer.id(mark) for mark in MARKS}
        self._text, self._stops = model.tokenizer.stream(shown=marks), StopFilter(request.stop)
        opened = "" if request.prefix or request.prefix_tokens else prompt.opened
        self.begun = beyond_prefix(request, self._text, prompt.opened)
        self._teller = (
            Apart(model.template, request, prompt.opened, request.prefix)
            if request.apart
            else Plain(request, opened)
        )

    def first(self) -> Iterator[Reply]:
        """What is told before any token."""
        if self.begun:
            yield from self._teller.push(self.begun, [])

    def text_of(self, token: int) -> str:
        """What the token that follows makes certain."""
        return self._text.push(token)

    def tell(self, text: str, info: TokenInfo) -> Iterator[Reply]:
        """More text, and the token that made it certain."""
        yield from self._teller.push(self._stops.push(text), [info])

    @property
    def stop(self) -> str | None:
        """The stop string that was met."""
        return self._stops.matched

    def rest(self) -> Iterator[Reply]:
        """What waited for more."""
        left = self._stops.push(self._text.flush()) + self._stops.flush()
        yield from self._teller.finish(left)

    def reason(self, reason: str) -> str:
        """Why the answer ended, as who asked is told; a stop string may also stand in a call."""
        told = self._teller.reason(reason)
        return reason if told == "length" and self.stop is not None else told
