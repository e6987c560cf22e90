"""The pictures of the message being written, above its text, and what they will take."""

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.talk.attached import PictureList
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.talk.pictures import words
from app.widgets.basics import Button, label, set_tone
from app.widgets.layouts import hbox, vbox
from app.widgets.pictures.card import PictureItem
from app.widgets.pictures.loader import PictureLoader
from app.widgets.pictures.strip import PictureStrip

NAMED = 5  # of the pictures that are still being read


class Attachments(QWidget):
    """The pictures of `written`; hidden where there are none. `changed` is sent when `ready` may
    differ.
    """

    changed = Signal()
    opened = Signal(int)  # the place of the one to be looked at
    vision_wanted = Signal()  # the open model cannot see

    def __init__(self, bench: Workbench, loader: PictureLoader, written: PictureList) -> None:
        super().__init__()
        self._bench, self._loader, self._written = bench, loader, written
        self.strip = PictureStrip(tr("Pictures to send"), loader, editable=True)
        self.caption = label("", "quiet", "small", wrap=True)
        self.help = Button(tr("Choose a vision file (mmproj)…"), self.vision_wanted.emit, "link")
        line = hbox((self.caption, 1), self.help, spacing=GRID)
        vbox(self.strip, line, on=self, spacing=GRID // 2)
        self.strip.removed.connect(written.remove)
        self.strip.chosen.connect(self._limit)
        self.strip.moved.connect(self._move)
        self.strip.opened.connect(self.opened)
        written.changed.connect(self.refresh)
        bench.chat.pictures_in_engine.changed.connect(self.refresh)
        bench.session.changed.connect(self.refresh)
        self._soon = QTimer(self, singleShot=True, interval=0)  # many are ready at once
        self._soon.timeout.connect(self.refresh)
        loader.ready.connect(self._refresh_soon)
        self.hide()
        self.refresh()

    @property
    def ready(self) -> bool:
        """True if the attached pictures can be sent."""
        return not (self._written.arriving or self._bad or self._blind)

    @property
    def any(self) -> bool:
        return bool(self._written.pictures)

    def refresh(self, *_: object) -> None:
        """Show what is attached as it is known now."""
        chat = self._bench.chat
        pictures, coming = self._written.pictures, self._written.arriving
        if pictures and not self._blind:
            chat.pictures_in_engine.send(pictures)
        items = [
            words.item(picture, chat.pictures_in_engine, self._loader, True) for picture in pictures
        ]
        named = (
            coming
            if len(coming) <= NAMED
            else (*coming[:NAMED], tr("{coming} more", coming=len(coming) - NAMED))
        )
        self.strip.show_items([*items, *(PictureItem(None, name, ("…",)) for name in named)])
        self._say()
        self.setVisible(bool(items or coming))
        self.changed.emit()

    def _refresh_soon(self, _: object) -> None:
        self._soon.start()

    @property
    def _blind(self) -> bool:
        return self.any and self._bench.chat.pictures_in_engine.sees is False

    @property
    def _bad(self) -> str:
        """Problems of the pictures that cannot be sent, one per line."""
        chat, found = self._bench.chat, []
        for picture in self._written.pictures:
            bad = words.item(picture, chat.pictures_in_engine, self._loader).bad.rstrip(".")
            if bad:
                found.append(bad if picture.name in bad else f"{picture.name}: {bad}")
        return "\n".join(found)

    def _say(self) -> None:
        chat, bad = self._bench.chat, self._bad
        pictures = self._written.pictures
        if bad:
            those = tr("them") if "\n" in bad else tr("it")
            text = tr("{bad}. Remove {those} to send the message.", bad=bad, those=those)
        elif self._blind:
            text = tr(
                "{model_title} does not support pictures.",
                model_title=self._bench.session.model_title,
            )
        else:
            lines = (
                words.all_of(pictures, chat.pictures_in_engine),
                *words.notes(pictures, chat.pictures_in_engine),
            )
            text = "\n".join(filter(None, lines))
        self.caption.setText(text)
        set_tone(self.caption, "bad" if bad else "warn" if self._blind else "quiet")
        self.caption.setVisible(bool(text))
        self.help.setVisible(self._blind and not bad)

    def _limit(self, place: int, choice: int) -> None:
        chosen = self._bench.chat.pictures_in_engine.choices(self._written.pictures[place])
        if choice < len(chosen):
            self._written.limit(place, chosen[choice].limits)

    def _move(self, place: int, to: int) -> None:
        self._written.move(place, to)
        self.refresh()  # also where it could not be kept
