"""A drafter that knows what comes, and says so, or something else now and then."""

from collections.abc import Callable, Sequence

from engine.protocol import Finished, Generate, Piece
from engine.runner.answering.answer import RunningAnswer
from engine.runner.api import Model
from engine.runner.drafting.drafts import NO_DRAFT, Draft, Drafts
from engine.runner.drafting.economy import Chances
from tests.engine.runner.answering.many import Fixed, Many

Wrong = Callable[[int], bool]
KINDS: dict[str, Wrong] = {
    "wrong": lambda i: True,
    "right": lambda i: False,
    "half": lambda i: i % 2 == 1,
    "third": lambda i: i % 3 == 2,
}
K = 5
"""Drafts of a step."""


class Scripted(Drafts):
    """Drafts of a known answer; tokens at the places that are `wrong` are other ones."""

    def __init__(self, text: Sequence[int], script: Sequence[int], wrong: Wrong, n_vocab: int):
        super().__init__(text, None, Chances())
        self._so_far, self._begin = text, len(text)
        self._script, self._wrong, self._n_vocab = script, wrong, n_vocab

    def _made(self, most: int, guesses: int = 0) -> Draft:
        at = len(self._so_far) - self._begin
        tokens = [
            (token + 1) % self._n_vocab if self._wrong(i) else token
            for i, token in enumerate(self._script[at : at + most], at)
        ]
        return Draft(tokens, "script") if tokens else NO_DRAFT


def answered(
    model: Model, requests: Sequence[Generate], wrong: Wrong | None = None, n: int = K
) -> dict[int, tuple[str, list[object], Finished]]:
    """What each request is answered together with the others, plain; then with drafts of that if
    these are asked for: text, tokens with their log-probabilities, end.
    """
    plain = _run(model, requests, Fixed(0), {})
    if wrong is None:
        return plain
    scripts = {i: [info.token for info in infos] for i, (_, infos, _) in plain.items()}  # type: ignore[attr-defined]
    many = Many(model, economy=Fixed(n))
    for request in requests:
        drawing = _asked(many, request).drawing
        drawing.drafts = Scripted(
            drawing.seen, scripts[request.id], wrong, model.loaded.built.n_vocab
        )
    return _told(many, requests)


def _run(
    model: Model, requests: Sequence[Generate], economy: Fixed, _: object
) -> dict[int, tuple[str, list[object], Finished]]:
    many = Many(model, economy=economy)
    for request in requests:
        _asked(many, request)
    return _told(many, requests)


def _asked(many: Many, request: Generate) -> RunningAnswer:
    """An answer whose form is ready: a turn does not wait for it."""
    answer = many.ask(request)
    assert answer.drawing.guide is None or answer.drawing.guide.wait(60)
    return answer


def _told(
    many: Many, requests: Sequence[Generate]
) -> dict[int, tuple[str, list[object], Finished]]:
    many.finish()
    found: dict[int, tuple[str, list[object], Finished]] = {}
    for request in requests:
        pieces = [one for one in many.told[request.id] if isinstance(one, Piece)]
        end = many.end(request.id)
        assert isinstance(end, Finished), end
        text = "".join(one.text for one in pieces)
        found[request.id] = text, [info for one in pieces for info in one.tokens], end
    return found
