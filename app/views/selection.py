"""The strip that always says what is selected."""

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.selection import Selected
from app.state.workbench import Workbench
from app.theme.devices import device_look
from app.theme.tokens import GRID
from app.widgets.basics import IconButton, set_tone, surface
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import hbox

BETWEEN = " › "
NOTHING = tr("Nothing selected")
LONGEST_TOKEN = 24  # characters shown of a token's text


class SelectionStrip(QWidget):
    """Token › layer › head › operation › device …, as far as they are selected, with the way back,
    its text and its link.
    """

    verbs_wanted = Signal(QPoint)  # where on the screen their menu opens

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        selection = bench.selection
        surface(self, "panel")
        self._back = IconButton("chevron-left", tr("Back (Alt+Left)"), selection.back, 16)
        self._forward = IconButton(
            "chevron-right", tr("Forward (Alt+Right)"), selection.forward, 16
        )
        self.caption = ElidedLabel()
        self._copy = IconButton("copy", tr("Copy the selection as text"), self.copy, 16)
        self._link = IconButton("link", tr("Copy a link to the selection"), self.copy_link, 16)
        self.verbs = IconButton("edit", tr("Edit what is selected"), self._open_verbs, 16)
        self._clear = IconButton("close", tr("Clear the selection"), selection.clear, 16)
        hbox(
            self._back,
            self._forward,
            GRID // 2,
            (self.caption, 1),
            self.verbs,
            self._copy,
            self._link,
            self._clear,
            on=self,
            margins=(GRID, 0, GRID, 0),
            spacing=GRID // 2,
        )
        selection.changed.connect(self.refresh)
        bench.memory.changed.connect(self.refresh)  # it knows which layer is the output block
        bench.chat.path_changed.connect(self.refresh)
        bench.token.changed.connect(self.refresh)  # which word is followed
        bench.session.changed.connect(self.refresh)
        self.refresh()

    @property
    def text(self) -> str:
        """The word that the Token view shows and the place inside the model, in words."""
        return BETWEEN.join(part for part in self._parts(self._bench.selection.now) if part)

    @property
    def is_selected(self) -> bool:
        """True if there is a selection; else `text` may name the newest word, which is shown."""
        return self._bench.selection.now != Selected()

    @property
    def has_verbs(self) -> bool:
        """True if something can be done with the selection."""
        bench = self._bench
        is_word = bench.selection.now.token is not None and bench.causes.can_begin
        return is_word or bench.verbs.target is not None

    def copy(self) -> None:
        """Put the selection's text on the clipboard."""
        if self.text:
            QGuiApplication.clipboard().setText(self.text)

    def copy_link(self) -> None:
        """Put the selection's link on the clipboard."""
        if self.is_selected:
            QGuiApplication.clipboard().setText(self._bench.selection.link())

    def refresh(self) -> None:
        text, selection = self.text, self._bench.selection
        self.caption.setText(text or NOTHING)
        self.caption.setAccessibleName(tr("Selected: {text}", text=text) if text else NOTHING)
        set_tone(self.caption, "" if self.is_selected else "quiet")
        self._back.setEnabled(selection.has_past)
        self._forward.setEnabled(selection.has_future)
        self._copy.setEnabled(bool(text))
        self._link.setEnabled(self.is_selected)
        self._clear.setEnabled(self.is_selected)
        self.verbs.setEnabled(self.has_verbs)

    def _open_verbs(self) -> None:
        self.verbs_wanted.emit(self.verbs.mapToGlobal(self.verbs.rect().bottomLeft()))

    def _parts(self, now: Selected) -> tuple[str, ...]:
        device = ""
        if now.device is not None:
            device = f"{device_look(now.device).letter} {now.device}"
        return (
            self._token(now.token),
            self._layer(now.layer),
            tr("head {head}", head=now.head) if now.head is not None else "",
            now.operation or "",
            tr("split {split}", split=now.split) if now.split is not None else "",
            device,
            now.component or "",
            now.tensor or "",
            tr("expert {expert}", expert=now.expert) if now.expert is not None else "",
            tr("channel {channel}", channel=now.channel) if now.channel is not None else "",
        )

    def _token(self, token: tuple[int, int] | None) -> str:
        """Its text and its place in its message; without one, the newest word's."""
        if token is None:
            followed = self._bench.token.word
            return (
                tr("{token} (newest)", token=self._token(followed.key))
                if followed is not None
                else ""
            )
        message, index = token
        text = self._bench.token.text(message, index)
        shown = "".join(c if c.isprintable() else " " for c in text).strip()
        short = shown if len(shown) <= LONGEST_TOKEN else f"{shown[:LONGEST_TOKEN]}…"
        return f"“{short}” #{index + 1}" if short else tr("token #{index}", index=index + 1)

    def _layer(self, layer: int | None) -> str:
        if layer is None:
            return ""
        n_layer = self._bench.memory.n_layer
        return (
            tr("output block") if n_layer and layer == n_layer else tr("layer {layer}", layer=layer)
        )
