"""Documents of a message: chips with a name and tokens, and a sheet with the text."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QSpinBox,
    QTextEdit,
    QWidget,
)

from app.documents.document import PAGE, Document
from app.documents.pieces import LONGEST, Piece, closest_sentence
from app.language import mark, tr, tr_n
from app.state.talk.documents import AttachedDocuments, DocumentTokens, PartsSearch
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, IconButton, label, literal, surface
from app.widgets.controls.flow import Flow
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import file_size, grouped
from app.widgets.tokens.lights import light_format

LONGEST_NAME = 260  # pixels at normal text
SHOWN = 200_000  # characters of a text that the sheet shows
LINE = 2000  # characters of a line there
SNIPPET = 160  # characters of a part in the list of found ones
FOUND_BY = {
    "words": mark("by words"),
    "meaning": mark("by meaning"),
    "both": mark("by words and meaning"),
}
USUAL_CTX = 4096  # tokens, while no model is open
KINDS = {
    "text": tr("Text file"),
    "pdf": "PDF",
    "office": tr("Office document"),
    "folder": tr("Folder"),
    "pasted": tr("Pasted text"),
}


class DocumentChip(QFrame):
    """A button that shows the document, and one that removes it where `removed` is given."""

    def __init__(
        self, name: str, facts: str, opened: Callable[[], object] | None, removed: object = None
    ) -> None:
        super().__init__()
        surface(self, "card")
        row = hbox(on=self, margins=(GRID // 2, 0, GRID // 2, 0), spacing=GRID // 2)
        self.button = Button("", opened or (lambda: None), "flat", picture="file")
        self.button.shortened = Qt.TextElideMode.ElideMiddle
        room = fonts.px(LONGEST_NAME)
        shown = self.button.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, room)
        self.button.setText(literal(shown))
        self.button.setAccessibleName(f"{name}, {facts}" if facts else name)
        self.button.setEnabled(opened is not None)
        row.addWidget(self.button)
        self.facts = label(facts, "quiet", "small")
        self.facts.setTextFormat(Qt.TextFormat.PlainText)
        row.addWidget(self.facts)
        self.remove: IconButton | None = None
        if callable(removed):
            self.remove = IconButton("close", tr("Remove {name}", name=name), removed, 14)
            row.addWidget(self.remove)


class DocumentStrip(Flow):
    """The documents of a message that was sent."""

    opened = Signal(int)

    def __init__(self, counts: DocumentTokens, documents: Sequence[Document]) -> None:
        super().__init__(tr("Documents"))
        self._counts, self._documents = counts, documents
        counts.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is known now."""
        self.show_items(
            [
                DocumentChip(d.name, facts_of(d, self._counts), self._open(place))
                for place, d in enumerate(self._documents)
            ]
        )

    def _open(self, place: int) -> Callable[[], None]:
        return lambda: self.opened.emit(place)


class AttachedStrip(Flow):
    """The documents of the message being written; a click shows one, its cross removes it."""

    opened = Signal(int)

    def __init__(self, attached: AttachedDocuments) -> None:
        super().__init__(tr("Documents to send"))
        self._attached = attached
        self._before: object = None
        attached.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what is attached as it is known now."""
        attached = self._attached
        facts = [facts_of(d, attached.counts) for d in attached.documents]
        now = [(d.name, text) for d, text in zip(attached.documents, facts, strict=True)]
        state = (now, attached.arriving)
        if state == self._before:
            return
        self._before = state
        chips: list[QWidget] = []
        for place, (name, text) in enumerate(now):
            chips.append(DocumentChip(name, text, self._open(place), self._remove(place)))
        for name in attached.arriving:
            chips.append(DocumentChip(name, tr("Reading…"), None, attached.cancel))
        self.show_items(chips)

    def _open(self, place: int) -> Callable[[], None]:
        return lambda: self.opened.emit(place)

    def _remove(self, place: int) -> Callable[[], None]:
        return lambda: self._attached.remove(place)


def facts_of(document: Document, counts: DocumentTokens) -> str:
    """Its tokens in the open model, or its size while they are unknown."""
    count = counts.of(document)
    return file_size(document.size) if count is None else tr("{count} tok", count=grouped(count))


class DocumentView(QWidget):
    """A document's text, and for one that is attached which part of it is sent."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Document"))
        self._attached, self._token = bench.chat.documents, bench.token
        self._document: Document | None = None
        self._moved = LaidText("")
        self._place: int | None = None
        self._title = label("", size="strong", wrap=True)
        self._title.setTextFormat(Qt.TextFormat.PlainText)
        self.facts = label("", tone="quiet", wrap=True)
        self.facts.setTextFormat(Qt.TextFormat.PlainText)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setAccessibleName(tr("Text of the document"))
        self.setFocusProxy(self.text)
        self.first, self.last = QSpinBox(), QSpinBox()
        self.first.setAccessibleName(tr("From"))
        self.last.setAccessibleName(tr("To"))
        self.first.valueChanged.connect(self._part_changed)
        self.last.valueChanged.connect(self._part_changed)
        self.parts = PartsFinder(bench)
        self.parts.kept.connect(self._keep_pieces)
        self._unit = label()
        self.keep = Button(tr("Send only this part"), self._keep)
        self._part = QWidget()
        self._lay_out()
        bench.token.lit_changed.connect(self._light)

    def show_document(
        self, document: Document, place: int | None = None, at: int | None = None
    ) -> None:
        """Show one, from character `at` of its text on; `place` is that among the attached ones.
        Sources of the inspected token are lit in it.
        """
        self._document, self._place = document, place
        self._title.setText(document.name)
        count = self._attached.counts.of(document)
        n = len(document.parts())
        parts = [
            KINDS[document.kind],
            file_size(document.size),
            f"{grouped(n)} {document.unit}{'' if n == 1 else 's'}",
            tr("{count} tokens", count=grouped(count)) if count is not None else "",
            *document.notes,
        ]
        if len(document.text) > SHOWN:
            parts.append(tr("the first {shown} characters are shown", shown=grouped(SHOWN)))
        self.facts.setText(" · ".join(filter(None, parts)))
        self.text.setFont(fonts.mono())
        self._moved = LaidText(document.text)
        self.text.setPlainText(self._moved.text)
        self._light()
        self._go_to(at)
        self._part.setVisible(place is not None and n > 1)
        self._unit.setText(f"{document.unit.capitalize()}s")
        for box, value in ((self.first, 1), (self.last, n)):
            box.setRange(1, n)
            box.setValue(value)
        self._part_changed()
        self.parts.show_document(document if place is not None else None)

    def _light(self) -> None:
        """Light the words that the inspected token's sources lie in."""
        if self._document is None:
            return
        shown = []
        for first, last, strength in self._token.lights(self._document.hash):
            selection = QTextEdit.ExtraSelection()
            selection.cursor = self._cursor(first, last)
            selection.format = light_format(strength)
            shown.append(selection)
        self.text.setExtraSelections(shown)

    def _go_to(self, at: int | None) -> None:
        self.text.setTextCursor(self._cursor(at or 0, at or 0))
        if at is not None:
            self.text.centerCursor()

    def _cursor(self, first: int, last: int) -> QTextCursor:
        cursor = QTextCursor(self.text.document())
        cursor.setPosition(self._moved.offset(first))
        cursor.setPosition(self._moved.offset(last), QTextCursor.MoveMode.KeepAnchor)
        return cursor

    def _keep_pieces(self, pieces: list[Piece]) -> None:
        if self._place is not None:
            self._attached.keep(self._place, pieces)
        self.done.emit()

    def _lay_out(self) -> None:
        hbox(self._unit, self.first, label("to", "quiet"), self.last, self.keep, on=self._part)
        end = hbox(self._part, STRETCH, Button(tr("Close"), self.done.emit))
        vbox(
            self._title, self.facts, (self.text, 1), (self.parts, 1), end, on=self, margins=PADDING
        )

    def _part_changed(self) -> None:
        first, last = self.first.value(), self.last.value()
        whole = first == 1 and last == self.last.maximum()
        self.keep.setEnabled(first <= last and not whole)

    def _keep(self) -> None:
        if self._place is not None:
            self._attached.cut(self._place, self.first.value(), self.last.value())
        self.done.emit()


class PartsFinder(QWidget):
    """Finds the parts of an attached document that fit a question, to send only these."""

    kept = Signal(list)  # pieces

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._document: Document | None = None
        self.search = PartsSearch(bench.embedder, self)
        self.search.changed.connect(self._show)
        bench.embedder.moved.connect(self._count)
        self.question = QLineEdit()
        self.question.setAccessibleName(tr("Question"))
        self.question.setPlaceholderText(tr("Question that the parts should answer"))
        self.question.returnPressed.connect(self.find_parts)
        self.find_button = Button(tr("Find parts"), self.find_parts)
        self.facts = label("", "quiet", "small", wrap=True)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Parts that were found"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setSpacing(1)
        self.list.itemChanged.connect(self._count)
        self.send = Button("", self._keep)
        row = hbox((self.question, 1), self.find_button, spacing=GRID)
        end = hbox((self.facts, 1), self.send, spacing=GRID)
        vbox(row, (self.list, 1), end, on=self)

    def show_document(self, document: Document | None) -> None:
        """Take another document; None hides the search. The question is what is being written."""
        worth = document is not None and len(document.text) > LONGEST
        self._document = document
        self.setVisible(worth)
        self.question.setText(" ".join(self._bench.chat.details.draft.split())[:LINE])
        self.question.setCursorPosition(0)
        self.search.clear()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        self.search.release()
        super().hideEvent(event)

    def find_parts(self) -> None:
        """Rank the parts of the document, or stop that."""
        question, document = self.question.text().strip(), self._document
        if self.search.searching:
            self.search.stop()
        elif question and document is not None:
            use, documents = self._bench.chat.context, self._bench.chat.documents
            own = documents.counts.of(document) or 0
            free = use.n_ctx - use.used + own if use.n_ctx else USUAL_CTX
            self.search.start(document, question, documents.room(document, max(0, free)))

    def _show(self) -> None:
        found = self.search.found
        self.list.blockSignals(True)
        self.list.clear()
        for place, piece in enumerate(found):
            unit = self._document.unit if self._document is not None else ""
            text = " ".join(closest_sentence(piece.text, self.search.question).split())[:SNIPPET]
            how = f" ({tr(FOUND_BY[self.search.by[place]])})" if self.search.embedder else ""
            item = QListWidgetItem(f"{piece.label(unit)}{how}: {text}")
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            chosen = place in self.search.chosen
            item.setCheckState(Qt.CheckState.Checked if chosen else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.list.blockSignals(False)
        for widget in (self.list, self.send):
            widget.setVisible(bool(found))
        self._count()

    def _count(self) -> None:
        search, chosen = self.search, self._chosen
        self.send.setText(tr_n("Send {n} part", "Send {n} parts", len(chosen)))
        self.send.setEnabled(bool(chosen))
        letters = sum(len(piece.text) for piece in chosen)
        self.find_button.set_text(tr("Stop") if search.searching else tr("Find parts"))
        if search.embedding:
            done, total = search.embedded
            self.facts.setText(
                tr(
                    "{model} reads the parts: {done} of {total}…",
                    model=search.embedder,
                    done=grouped(done),
                    total=grouped(total),
                )
            )
        elif search.searching:
            self.facts.setText(tr("Searching…"))
        elif search.found:
            n = len(search.found)
            text = tr_n(
                "{n} part found by its words; {letters} characters chosen, at most half of the"
                " free context.",
                "{n} parts found by their words; {letters} characters chosen, at most half of"
                " the free context.",
                n,
                letters=grouped(letters),
            )
            if search.embedder:
                text += " " + tr("Also ranked by {model}.", model=search.embedder)
            self.facts.setText(f"{text} {search.note}".rstrip())
        elif search.question:
            self.facts.setText(tr("No part has a word of the question."))
        else:
            self.facts.setText("")

    @property
    def _chosen(self) -> list[Piece]:
        checked = Qt.CheckState.Checked
        rows = zip(range(self.list.count()), self.search.found, strict=False)
        return [piece for row, piece in rows if self.list.item(row).checkState() == checked]

    def _keep(self) -> None:
        self.kept.emit(self._chosen)


class LaidText:
    """The beginning of a text, in lines that a text field lays out quickly; `offset` says where a
    character of the text is in it, in the units of Qt's documents (UTF-16).
    """

    def __init__(self, text: str) -> None:
        self._shown = text[:SHOWN]
        self._added: list[int] = []  # the characters before which a line break was added
        start = 0
        for line in re.split(f"[\n{PAGE}]", self._shown):
            self._added += range(start + LINE, start + len(line), LINE)
            start += len(line) + 1
            if self._shown[start - 1 : start] == PAGE:
                self._added.append(start)
        self._added.sort()
        bounds = [0, *self._added, len(self._shown)]
        parts = [self._shown[a:b] for a, b in itertools.pairwise(bounds)]
        self.text = "\n".join(parts).replace(PAGE, "\n")
        self._wide = any(letter > "\uffff" for letter in self._shown)

    def offset(self, at: int) -> int:
        """The place of character `at`; of one that is not shown, the end."""
        at = min(at, len(self._shown))
        wide = sum(letter > "\uffff" for letter in self._shown[:at]) if self._wide else 0
        return at + bisect_right(self._added, at) + wide
