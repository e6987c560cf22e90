"""Results of the model by name, and their numbers for one token of the chat."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.selection import Selection
from app.state.session import Session
from app.state.talk.chat import ChatState
from app.state.tensors.numbers import Numbers, computed
from app.state.token.word import Conversation
from engine.protocol import DescribeGraph, Examine, Examined, Failed, GraphDone, ResultPart


@dataclass(frozen=True)
class TensorItem:
    """A weight of the file, or by its name and occurrence in the graph a `result`."""

    name: str
    type: str
    dims: tuple[int, ...]
    layer: int | None
    result: tuple[str, int] | None = None


@dataclass(frozen=True)
class TensorGroup:
    """Tensors of a layer, or of none."""

    title: str
    items: tuple[TensorItem, ...]


_NUMBERED = re.compile(r"node_\d+")
NO_WORD = tr("Select a token of an answer to see the numbers computed for it.")


class ResultsState(QObject):
    """The graph is requested once a model is open and somebody looks. One result at a time is
    computed again, beside the conversation.
    """

    listed = Signal()  # groups

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        chat: ChatState,
        selection: Selection,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._session = client, session
        self._chat, self._selection = chat, selection
        self.groups: list[TensorGroup] = []
        self._known: object = None  # the model whose groups these are
        self._request = Latest(client, self)
        self._request.replied.connect(self._part)
        self._wanted: tuple[str, int] | None = None
        self._info: ResultPart | None = None
        self._values = np.empty(0, np.float32)

    def look(self) -> None:
        """Have the groups of the open model."""
        model = self._session.model
        if model is self._known:
            return
        self._known, self.groups = model, []
        self.listed.emit()
        if model is not None:
            self._client.send(DescribeGraph(0), self._described, lambda failed: None)

    def compute(
        self, item: TensorItem, then: Callable[[Numbers], None], fail: Callable[[str], None]
    ) -> None:
        """The numbers of a result in the step that made the word that is selected."""
        self.forget()
        request = self.question(re.escape(item.result[0])) if item.result is not None else None
        if request is None:
            fail(NO_WORD)
            return

        def done(examined: Examined) -> None:
            part = self._info
            if part is None:
                fail(tr("{name} was not computed in that step.", name=item.name))
                return
            values = self._values.reshape(part.info.dims[::-1])
            then(
                computed(
                    item.name, values, part.info.fmt, tr("on {device}", device=part.info.device)
                )
            )

        def failed(reply: Failed) -> None:
            fail(reply.message)

        self._info, self._wanted = None, item.result
        self._request.send(request, done, failed)

    def question(self, pattern: str) -> Examine | None:
        """Requests results of the step that made the word that is selected; None without one."""
        word = self._selection.now.token
        row = self._chat.row_of(word[0]) if word is not None else None
        if word is None or row is None:
            return None
        path, tokens = self._chat.path[: row + 1], self._chat.tokens(row)
        if word[1] >= len(tokens):
            return None
        digests = self._chat.pictures_in_engine.digests(path)
        arguments = (path[:row], path[row], tokens, self._chat.details.system, digests)
        talk = Conversation(*arguments, self._chat.edits.of(path[row]))
        return msgspec.structs.replace(talk.written(word[1]), probes=[pattern])

    def forget(self) -> None:
        """Cancel the pending request."""
        self._request.forget()

    def _part(self, part: ResultPart) -> None:
        key = part.info.name, part.info.occurrence
        if key != self._wanted:
            return
        if part.start == 0:
            self._info, self._values = part, np.zeros(int(np.prod(part.info.dims)), np.float32)
        values = np.frombuffer(part.data, "<f4")
        self._values[part.start : part.start + values.size] = values

    def _described(self, graph: GraphDone) -> None:
        layers: dict[int | None, list[TensorItem]] = {}
        for node in graph.nodes:
            plain = node.role in ("", "view") and " (" not in node.name
            if plain and not _NUMBERED.fullmatch(node.name):
                key = (node.name, node.occurrence)
                name = f"{node.name}#{node.occurrence}" if node.occurrence else node.name
                item = TensorItem(name, node.dtype, tuple(node.dims), node.layer, key)
                layers.setdefault(node.layer, []).append(item)
        self.groups = [
            TensorGroup(
                tr("Results before layers")
                if layer is None
                else tr("Results {layer}", layer=layer),
                tuple(items),
            )
            for layer, items in layers.items()
        ]
        self.listed.emit()
