"""Edits of what is selected: switched off, scaled, or taken from another answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.documents.document import Document
from app.language import tr
from app.state.problem import Problem
from app.state.selection import Selected, Selection
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import NEVER, ChatEdit
from app.state.talk.message import Message, Picture, title_of
from app.state.token.token import TokenState
from engine.errors import BadSetting
from engine.protocol import DumpResults, Edit, Failed, ResultPart, ResultsDumped

Floats = NDArray[np.float32]
MILD = 0.5  # the factor to begin with: most models still answer in sentences
HEADS = ("attn_gated", "kqv_out")
"""What enters the output matrix of attention, by whether it has a gate."""
_RESULT = re.compile(r"([A-Za-z_]\w{0,60})-(\d{1,6})(?:#(\d{1,4}))?", re.ASCII)
_OTHER = re.compile(r"([A-Za-z_]\w{0,60})(?:#(\d{1,4}))?", re.ASCII)
_UNNAMED = re.compile(r"node_\d+")
NO_OTHER = tr("There is no other answer in this chat. Send another question, or edit this one.")


@dataclass(frozen=True)
class Target:
    """A place in the model that edits can name; `name` is what a menu calls it. `shown` is a
    pattern of the results that have its numbers.
    """

    edit: Edit
    name: str
    shown: str


def target_of(now: Selected, n_layer: int | None) -> Target | None:
    """Return the part of the selection that can be edited; None for nothing."""
    layer = now.layer
    if layer is not None and n_layer and layer >= n_layer:
        return None  # the output block
    if layer is not None and now.head is not None:
        found = "|".join(f"{name}-{layer}" for name in HEADS)
        edit = Edit.scale("heads", layer, by=0, head=now.head)
        return Target(edit, tr("head {head} of layer {layer}", head=now.head, layer=layer), found)
    if layer is not None and now.expert is not None:
        edit = Edit.of("scale", "ffn_moe_down", layer, 0, expert=now.expert)
        return Target(
            edit, tr("expert {expert} of layer {layer}", expert=now.expert, layer=layer), ""
        )
    if now.operation is not None:
        return _result(now.operation, now.channel)
    if layer is not None and now.tensor is None and now.component is None:
        edit = Edit.of("scale", "residual", layer, 0, delta=True)
        return Target(edit, tr("layer {layer}", layer=layer), f"l_out-{layer}")
    return None


def _result(name: str, channel: int | None) -> Target | None:
    of_layer, other = _RESULT.fullmatch(name), _OTHER.fullmatch(name)
    found = of_layer or other
    if found is None or _UNNAMED.fullmatch(found[1]):
        return None
    layers = [int(found[2])] if of_layer is not None else []
    number = found[3] if of_layer is not None else found[2]
    channels = None if channel is None else (channel, channel + 1)
    edit = Edit.of("scale", found[1], layers, 0, channels=channels)
    edit = replace(edit, occurrence=int(number) if number else None)
    plain = name.partition("#")[0]
    of = tr("channel {channel} of {result}", channel=channel, result=plain)
    what = plain if channel is None else of
    return Target(edit, what, plain if layers else "")


class Verbs(QObject):
    """The verbs of the selection; each adds an edit to the chat, the last of which is
    `added`.
    """

    changed = Signal()
    added = Signal(int)  # its number

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        chat: ChatState,
        token: TokenState,
        selection: Selection,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._chat, self._token = session, chat, token
        self._selection = selection
        self.problem = ""
        self._request = Latest(client, self)
        self._request.moved.connect(self.changed)
        self._request.replied.connect(self._on_part)
        self._rows: dict[tuple[str, int], list[tuple[list[int], bytes]]] = {}
        selection.changed.connect(self.changed)
        chat.opened.connect(self._request.forget)

    @property
    def target(self) -> Target | None:
        """The place that would be edited; None while no model is open."""
        parts = self._token.parts
        if self._session.model is None:
            return None
        return target_of(self._selection.now, parts.n_layer if parts is not None else None)

    def switch_off(self) -> None:
        """Have what is selected count for nothing; an expert is never chosen."""
        target = self.target
        if target is None:
            return
        edit = target.edit
        if edit.expert is not None:
            chosen = (edit.expert, edit.expert + 1)
            edit = Edit.of("set", "ffn_moe_logits", edit.layers, NEVER, channels=chosen)
        self._add(ChatEdit(edit))

    def scale(self) -> None:
        """Have what is selected count half; the form of the edit changes that."""
        if self.target is not None:
            self._add(ChatEdit(replace(self.target.edit, value=MILD)))

    # Take from another answer

    @property
    def can_take(self) -> bool:
        """True if the numbers of what is selected can be computed for another answer."""
        return self.target is not None and bool(self.target.shown)

    @property
    def taking(self) -> bool:
        """True while the numbers are computed."""
        return self._request.running

    @property
    def progress(self) -> tuple[int, int]:
        """How many tokens are read, of how many."""
        return self._request.done, self._request.total

    def sources(self) -> list[tuple[Message, str]]:
        """Answers of this chat with another question than the last, and that question, the newest
        first.
        """
        path, found = self._chat.path, dict[int | None, tuple[Message, str]]()
        last = next((m.parent for m in reversed(path) if m.role == "assistant"), None)
        for message in reversed(self._chat.everything().messages.values()):
            answers = message.role == "assistant" and message.text and message.parent
            if answers and message.parent != last and message.parent not in found:
                question = self._chat.everything().up_to(message)[-2]
                attached: Sequence[Picture | Document] = (*question.pictures, *question.documents)
                found[message.parent] = message, title_of(question.text, attached)
        return list(found.values())

    def take(self, source: Message) -> None:
        """Set what is selected, at the last token of the prompt, to what it was there before the
        other answer.
        """
        target = self.target
        if target is None or not target.shown:
            return
        before = self._chat.everything().up_to(source)[:-1]
        digests = self._chat.pictures_in_engine.digests(before)
        self._rows, self.problem = {}, ""
        request = DumpResults(
            0,
            [target.shown],
            messages=as_messages(self._chat.details.system, before, digests),
            edits=self._chat.edits.of(source),
        )
        name = title_of(before[-1].text)

        def done(_: ResultsDumped) -> None:
            try:
                self._took(target, name)
            except BadSetting as error:
                self.problem = str(error)
            self.changed.emit()

        self._request.send(request, done, self._failed)
        self.changed.emit()

    def cancel(self) -> None:
        """Take nothing."""
        self._request.cancel()

    def _on_part(self, part: ResultPart) -> None:
        key = part.info.name, part.info.step
        self._rows.setdefault(key, []).append((part.info.dims, part.data))

    def _took(self, target: Target, name: str) -> None:
        layer = target.edit.layers[0]
        known = {name for name, _ in self._rows}
        names = (*(f"{name}-{layer}" for name in HEADS), target.shown)
        chosen = next((one for one in names if one in known), None)
        if chosen is None:
            raise BadSetting("result", target.name, tr("a result that this model computes"))
        step = max(number for result, number in self._rows if result == chosen)
        parts = self._rows[chosen, step]
        values = np.frombuffer(b"".join(data for _, data in parts), "<f4")
        n_tokens = parts[0][0][-1] if len(parts[0][0]) > 1 else 1
        row = values.reshape(n_tokens, -1)[-1].astype(np.float32)
        parts_of_model = self._token.parts
        n_head = parts_of_model.n_head if parts_of_model is not None else 0
        hash, data = pack({layer: _part_of(row, target.edit, n_head)})
        edit = replace(target.edit, op="set", value=1.0, positions="last", delta=False)
        self._add(ChatEdit(edit, hash, name), {hash: data})

    def _failed(self, failed: Failed) -> None:
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()

    def _add(self, one: ChatEdit, vectors: dict[str, bytes] | None = None) -> None:
        try:
            self._chat.edits.add(one, vectors)
        except BadSetting as error:
            self._chat.problem.emit(Problem(error.kind, str(error)))
            return
        self.added.emit(len(self._chat.edits.value.edits) - 1)


def _part_of(row: Floats, edit: Edit, n_head: int) -> Floats:
    """The numbers of a token's row that an edit is of."""
    if edit.head is not None and n_head:
        size = len(row) // n_head
        return row[edit.head * size : (edit.head + 1) * size]
    if edit.channels is not None:
        return row[edit.channels[0] : edit.channels[1]]
    return row
