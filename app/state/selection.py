"""The selection that all views share, and its link."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from PySide6.QtCore import QObject, Signal

from app.language import tr

LONGEST_PAST = 100
SCHEME = "cutaway:"
LONGEST_LINK, SHOWN = 2000, 40  # characters: of a link, of what an error quotes
_OF_LAYER = re.compile(r"(?:(?:enc|dec)\.)?blk\.(\d+)\.")


@dataclass(frozen=True)
class Selected:
    """The selected objects; None for a kind without a selection. None where nothing is.

    `token` is (message id, index), `layer` counts from 0 with the output block after the last,
    `head` is a query head of the layer, `operation` the name of a node of the graph, with its
    occurrence behind # where that is not 0 ("Qcur-3#1"), `split` the place of a split in the step,
    `component` lies on `device`, `tensor` is a weight of the file, `expert` one of its layer,
    `channel` a number of the operation's result of one token.
    """

    token: tuple[int, int] | None = None
    layer: int | None = None
    head: int | None = None
    operation: str | None = None
    split: int | None = None
    device: str | None = None
    component: str | None = None
    tensor: str | None = None
    expert: int | None = None
    channel: int | None = None


class BadLink(ValueError):
    """A link that cannot be followed, in a sentence for the person who gave it."""


class Selection(QObject):
    """A token of the talk, and a place inside the model; a new place takes that of the old.

    Its past is kept for Alt+Left and Alt+Right.
    """

    changed = Signal()
    page_wanted = Signal(str)  # id of the inspector's page that is to show it
    word_clicked = Signal()  # a word of the talk, to look inside it

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now = Selected()
        self._past: list[Selected] = []
        self._future: list[Selected] = []

    def select_token(self, message: int, index: int) -> None:
        self._go(replace(self.now, token=(message, index)))

    def leave_token(self) -> None:
        """No token any more; the place inside the model stays."""
        self._go(replace(self.now, token=None))

    def select_layer(self, layer: int | None, device: str | None = None) -> None:
        """A layer, or what of it lies on one device."""
        self._go(Selected(self.now.token, layer=layer, device=device))

    def select_head(self, layer: int, head: int) -> None:
        """A query head of a layer's attention."""
        self._go(Selected(self.now.token, layer=layer, head=head))

    def select_operation(
        self,
        name: str,
        layer: int | None = None,
        device: str | None = None,
        token: tuple[int, int] | None = None,
    ) -> None:
        """A node of the graph: "Qcur-3", or "Qcur-3#1" for the second of that name; of that token,
        or of the one that is selected.
        """
        word = token or self.now.token
        self._go(Selected(word, layer=layer, operation=name, device=device))

    def select_expert(self, layer: int, expert: int, operation: str) -> None:
        """An expert of a layer, and what the layer's experts make together."""
        chosen = Selected(self.now.token, layer=layer, operation=operation, expert=expert)
        self._go(chosen)

    def select_channel(self, channel: int) -> None:
        """A number of the operation's result; others of it are no past."""
        if self.now.operation is not None and channel != self.now.channel:
            self.now = replace(self.now, channel=channel)
            self.changed.emit()

    def select_tensor(self, name: str, layer: int | None) -> None:
        self._go(Selected(self.now.token, layer=layer, tensor=name))

    def select_device(self, device: str, component: str | None = None) -> None:
        """All of a device, or one component on it, whatever the layer."""
        self._go(Selected(self.now.token, device=device, component=component))

    def select_cell(self, layer: int | None, device: str, component: str) -> None:
        """One component of one layer on one device."""
        self._go(Selected(self.now.token, layer=layer, device=device, component=component))

    def select_split(self, split: int, device: str) -> None:
        self._go(Selected(self.now.token, split=split, device=device))

    def show_in(self, page: str) -> None:
        """Bring the page of the inspector with that id to the front, to show what is selected."""
        self.page_wanted.emit(page)

    def link(self) -> str:
        """The selection as a link; "cutaway:" alone where nothing is."""
        return link_of(self.now)

    def follow(self, link: str) -> None:
        """Select what a link names. Raises BadLink."""
        self._go(selected_of(link))

    def clear(self) -> None:
        """Look at nothing."""
        self._go(Selected())

    def forget(self) -> None:
        """Look at nothing, and know no past: what was selected is no more."""
        self._past, self._future = [], []
        if self.now != Selected():
            self.now = Selected()
            self.changed.emit()

    def forget_message(self, message: int) -> None:
        """A message is gone: none of its tokens is selected, nor was."""

        def without(one: Selected) -> Selected:
            return replace(one, token=None) if one.token and one.token[0] == message else one

        now = without(self.now)
        self._past, self._future = ([*map(without, kept)] for kept in (self._past, self._future))
        if now != self.now:
            self.now = now
            self.changed.emit()

    @property
    def has_past(self) -> bool:
        return bool(self._past)

    @property
    def has_future(self) -> bool:
        return bool(self._future)

    def back(self) -> None:
        """Return to the previous selection."""
        if self._past:
            self._future.append(self.now)
            self.now = self._past.pop()
            self.changed.emit()

    def forward(self) -> None:
        """Undo `back`."""
        if self._future:
            self._past.append(self.now)
            self.now = self._future.pop()
            self.changed.emit()

    def _go(self, selected: Selected) -> None:
        if selected != self.now:
            self._past = [*self._past, self.now][-LONGEST_PAST:]
            self._future.clear()
            self.now = selected
            self.changed.emit()


def link_of(selected: Selected) -> str:
    """`cutaway:token=7.36;layer=21;operation=kqv_out-21`: only what is selected, in this order."""
    parts = []
    for field in fields(Selected):
        value = getattr(selected, field.name)
        if value is not None:
            text = "{}.{}".format(*value) if field.name == "token" else str(value)
            parts.append(f"{field.name}={quote(text, safe=':')}")
    return SCHEME + ";".join(parts)


def selected_of(link: str) -> Selected:
    """The reverse of `link_of`. Raises BadLink for whatever that would not have made."""
    text = link.strip()
    if not text.startswith(SCHEME):
        raise BadLink(
            tr(
                "This is not a link to a selection: {shown}. It begins with {scheme}",
                shown=_shown(text),
                scheme=SCHEME,
            )
        )
    if len(text) > LONGEST_LINK:
        raise BadLink(
            tr(
                "The link has {text} characters; the longest has {longest_link}.",
                text=len(text),
                longest_link=LONGEST_LINK,
            )
        )
    found: dict[str, Any] = {}
    for part in text.removeprefix(SCHEME).split(";") if text != SCHEME else ():
        name, equals, value = part.partition("=")
        if name not in _PARTS or not equals:
            raise BadLink(
                tr("The link names {shown}, which cannot be selected.", shown=_shown(part))
            )
        if name in found:
            raise BadLink(tr("The link names two of {name}.", name=name))
        found[name] = _PARTS[name](_decoded(name, value))
        if found[name] is None:
            raise BadLink(
                tr(
                    "The link's {name} is {shown}, which no {name} can be.",
                    name=name,
                    shown=_shown(value),
                )
            )
    return Selected(**found)


def _decoded(name: str, value: str) -> str:
    try:
        text = unquote_to_bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise BadLink(
            tr("The link's {name} is {shown}, which is not text.", name=name, shown=_shown(value))
        )
    return text


def _shown(text: str) -> str:
    """A piece of a link in an error: short, and nothing in it moves the cursor."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:SHOWN])
    return f"“{plain}{'…' if len(text) > SHOWN else ''}”"


def _matching(pattern: str) -> Callable[[str], str | None]:
    return lambda text: text if re.fullmatch(pattern, text) else None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None


def _large(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _token(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"([0-9]{1,18})\.([0-9]{1,9})", text)
    return (int(found[1]), int(found[2])) if found is not None else None


_PARTS: dict[str, Callable[[str], object]] = {
    "token": _token,
    "layer": _number,
    "head": _number,
    "operation": _matching(".{1,128}"),
    "split": _number,
    "device": _matching(r"[A-Za-z0-9_-]{1,32}(:[0-9]{1,3})?"),
    "component": _matching("[a-z]{1,32}"),
    "tensor": _matching(".{1,256}"),
    "expert": _number,
    "channel": _large,
}


def layer_of(tensor: str, n_layer: int) -> int | None:
    """The layer a tensor of the file belongs to; the output block is layer `n_layer`."""
    found = _OF_LAYER.match(tensor)
    if found is not None:
        return int(found[1])
    return n_layer if n_layer and tensor.startswith("output") else None
