"""Which experts the layers chose for a word of the chat, and with which weights."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.selection import Selection
from app.state.tensors.numbers import Floats
from engine.protocol import Examine, Examined, Failed, ResultPart

PATTERN = r"ffn_moe_(logits|topk|weights)-\d+"
NO_WORD = tr("Select a token of an answer to see its experts.")
NO_EXPERTS = tr("This model has no experts: it is a dense model.")
_NAMED = re.compile(r"ffn_moe_(logits|topk|weights)-(\d+)")


class ChosenExpert(NamedTuple):
    """An expert of a layer, and what its result is multiplied by."""

    expert: int
    weight: float


@dataclass(frozen=True)
class Routing:
    """For one token: what each of the `layers` that have experts chose of its `n_experts`."""

    layers: tuple[int, ...]
    n_experts: int
    chosen: tuple[tuple[ChosenExpert, ...], ...]

    def map(self) -> Floats:
        """Weights [layers, experts]; 0 of those that were not chosen."""
        made = np.zeros((len(self.layers), self.n_experts), np.float32)
        for row, experts in enumerate(self.chosen):
            for one in experts:
                made[row, one.expert] = one.weight
        return made


class ExpertsState(QObject):
    """Asks while somebody looks: for the word that is selected, in an answer of the open model.

    `question` makes the request for results of that word's step, None where there is no such word.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        selection: Selection,
        question: Callable[[str], Examine | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._selection, self._question = selection, question
        self.routing: Routing | None = None
        self.problem = NO_WORD
        self._request = Latest(client, self)
        self._request.replied.connect(self._on_part)
        self._shown = False
        self._word: tuple[int, int] | None = None
        self._found: dict[str, Floats] = {}
        selection.changed.connect(self._follow)

    @property
    def busy(self) -> bool:
        return self._request.running

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible; nothing is computed for nobody."""
        self._shown = shown
        self._follow()

    def forget(self) -> None:
        """Another model is open, or none."""
        self._request.forget()
        self._word, self.routing, self.problem = None, None, NO_WORD
        self.changed.emit()
        self._follow()

    def _follow(self) -> None:
        word = self._selection.now.token
        if not self._shown or word == self._word:
            return
        self._request.forget()
        self._word, self.routing, self._found = word, None, {}
        request = self._question(PATTERN)
        self.problem = "" if request is not None else NO_WORD
        if request is not None:
            self._request.send(request, self._examined, self._failed)
        self.changed.emit()

    def _on_part(self, part: ResultPart) -> None:
        values = np.frombuffer(part.data, "<f4")
        before = self._found.get(part.info.name, np.zeros(0, np.float32))
        self._found[part.info.name] = np.concatenate([before, values])

    def _examined(self, examined: Examined) -> None:
        self.routing = routing_of(self._found)
        self.problem = "" if self.routing is not None else NO_EXPERTS
        self.changed.emit()

    def _failed(self, failed: Failed) -> None:
        self.problem = failed.message
        self.changed.emit()


def routing_of(found: Mapping[str, Floats]) -> Routing | None:
    """Read the routing from results by name, each for one token; None if there are no experts."""
    layers = sorted(
        int(named[2]) for name in found if (named := _NAMED.fullmatch(name)) and named[1] == "topk"
    )
    chosen, most = [], 0
    for layer in layers:
        experts = found[f"ffn_moe_topk-{layer}"].astype(int)
        weights = found.get(f"ffn_moe_weights-{layer}", np.zeros(len(experts), np.float32))
        logits = found.get(f"ffn_moe_logits-{layer}", ())
        most = max(most, len(logits), int(experts.max()) + 1)
        pairs = zip(experts.tolist(), weights.tolist(), strict=True)
        chosen.append(tuple(ChosenExpert(*pair) for pair in pairs))
    return Routing(tuple(layers), most, tuple(chosen)) if layers else None
