"""The open model against the host, operation by operation: requested by any view, kept for all."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.graph.blocks import GraphIndex
from app.state.graph.overlay import NodeError, error_text, node_errors, result_key
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from engine.protocol import Compare, Compared, ComparedResult, Failed

TEXT = "The capital of France is Paris. What do people eat there, and what do they read on Sundays?"
STEPS = {"prefill": tr("a prompt"), "decode": tr("one token")}


class ComparisonState(QObject):
    """`result` is the last one, of the open model with the placement it has; `problem` says in a
    sentence why there is none. `task` says how many steps are compared while it `is_busy`.
    """

    changed = Signal()

    def __init__(
        self, client: EngineClient, session: Session, chat: ChatState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._chat = session, chat
        self.result: Compared | None = None
        self.problem = ""
        self.task = Latest(client, self)
        self.task.moved.connect(self.changed)
        self._of = session.model
        self._errors: dict[str, tuple[GraphIndex, Compared, Mapping[int, NodeError]]] = {}
        session.changed.connect(self._follow)

    @property
    def is_busy(self) -> bool:
        return self.task.running

    @property
    def can_start(self) -> bool:
        """True if the open model is idle."""
        return self._session.status == "ready" and not self.is_busy

    @property
    def first(self) -> ComparedResult | None:
        """The first result that deviates."""
        result = self.result
        return None if result is None or result.first is None else result.rows[result.first]

    def start(self) -> None:
        """Compare the beginning of the open chat, or of a text where that is empty or has pictures.

        The engine's context is forgotten: the next answer reads its prompt anew.
        """
        if not self.can_start:
            return
        self.problem = ""
        self.task.send(self._question(), self._compared, self._failed)
        self.changed.emit()

    def cancel(self) -> None:
        """Stop; what was known before stays."""
        self.task.cancel()

    def errors(self, index: GraphIndex | None) -> Mapping[int, NodeError]:
        """Errors by node of a graph, either of one token or of a prompt."""
        if index is None or self.result is None:
            return {}
        phase = "decode" if index.graph.n_tokens == 1 else "prefill"
        known = self._errors.get(phase)
        if known is None or known[0] is not index or known[1] is not self.result:
            rows = [row for row in self.result.rows if row.phase == phase]
            known = self._errors[phase] = index, self.result, node_errors(index, rows)
        return known[2]

    def _question(self) -> Compare:
        path = self._chat.path
        if not path or any(message.pictures for message in path):
            return Compare(0, prompt=TEXT)
        return Compare(0, messages=as_messages(self._chat.details.system, path))

    def _follow(self) -> None:
        """Another model, a restart or another placement: what was found is not of it."""
        if self._session.model is self._of:
            return
        self._of = self._session.model
        self.task.forget()
        self.result, self.problem = None, ""
        self._errors.clear()
        self.changed.emit()

    def _compared(self, result: Compared) -> None:
        self.result = result
        self.changed.emit()

    def _failed(self, failed: Failed) -> None:
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()


def verdict(result: Compared) -> str:
    """Summarise a comparison in a sentence or two."""
    rows = result.rows
    devices = ", ".join(dict.fromkeys(row.device for row in rows if row.device))
    looked = tr(
        "{rows} results of {n_tokens} tokens and of one more",
        rows=len(rows),
        n_tokens=result.n_tokens,
    )
    if result.first is None:
        nearest = max(rows, key=lambda row: row.error / row.most, default=None)
        text = tr(
            "No result of {devices} differs from the host: {looked}.",
            devices=devices,
            looked=looked,
        )
        if nearest is None:
            return text
        return tr(
            "{text} The nearest to it is {result_key}: {error_text}.",
            text=text,
            result_key=result_key(nearest),
            error_text=error_text(nearest),
        )
    first = rows[result.first]
    wrong = sum(bool(row.problem) for row in rows)
    others = (
        tr("{wrong} of {rows} results deviate", wrong=wrong, rows=len(rows))
        if wrong > 1
        else tr("no other does")
    )
    return tr(
        "First mismatch: {result_key} of {steps} on {device}: {error_text}; {others}.",
        result_key=result_key(first),
        steps=STEPS[first.phase],
        device=first.device or devices,
        error_text=error_text(first),
        others=others,
    )
