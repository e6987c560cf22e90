"""The prompt as the model reads it: what the chat template adds to what was written."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.client import Latest
from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import PADDING
from app.widgets.basics import Button, label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import grouped
from engine.protocol import ChatMessage, Failed, Render, Rendered


class PromptView(QWidget):
    """Asks the engine each time it is opened."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Prompt with the chat template"))
        self._bench = bench
        self._request = Latest(bench.client)
        self._messages: list[ChatMessage] = []
        self._title = label(tr("Prompt sent to the model"), size="strong")
        self.facts = label("", tone="quiet", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setFont(fonts.mono())
        self.text.setAccessibleName(tr("Prompt"))
        self.setFocusProxy(self.text)
        row = hbox(STRETCH, Button(tr("Close"), self.done.emit))
        vbox(self._title, self.facts, (self.text, 1), row, on=self, margins=PADDING)

    def refresh(self) -> None:
        """Request the prompt of the chat up to its last question, or to what is written now."""
        self._messages = self._bench.prompt.messages()
        self.text.setFont(fonts.mono())
        self.text.clear()
        if not self._messages:
            self.facts.setText(tr("The message is empty. Type one to see the prompt."))
            return
        busy = self._bench.chat.busy
        self.facts.setText(tr("Available after the current answer.") if busy else tr("Loading…"))
        self._request.send(Render(0, messages=self._messages), self._show, self._failed)

    def _show(self, rendered: Rendered) -> None:
        kind = {"file": tr("the file's chat template"), "chatml": tr("the ChatML template")}
        by = kind.get(rendered.chat, tr("no template: this is a base model"))
        tokens_of = tr(
            "{n_tokens} tokens{of_pictures}",
            n_tokens=grouped(rendered.n_tokens),
            of_pictures=_of_pictures(rendered),
        )
        self.facts.setText(
            tr(
                "{tokens_of}, by {by}. Coloured: what the template adds.",
                tokens_of=tokens_of,
                by=by,
            )
        )
        look, cursor = QTextCharFormat(), QTextCursor(self.text.document())
        cursor.beginEditBlock()
        for part, added in parts_of(rendered.text, [m.text for m in self._messages]):
            look.setForeground(QColor(tokens().accent if added else tokens().text))
            cursor.insertText(part, look)
        cursor.endEditBlock()

    def _failed(self, failed: Failed) -> None:
        self.facts.setText(failed.message)


def _of_pictures(rendered: Rendered) -> str:
    """How many of the tokens are embeddings of pictures, whose marks stand in the text."""
    pictures = len({rows.picture for rows in rendered.rows})
    count = sum(rows.count for rows in rendered.rows)
    which = tr("the picture") if pictures == 1 else tr("{pictures} pictures", pictures=pictures)
    return (
        tr(", {count} of them embeddings of {which}", count=grouped(count), which=which)
        if pictures
        else ""
    )


def parts_of(text: str, contents: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """A prompt in pieces, each with whether the template has added it."""
    at = 0
    for content in contents:
        content = content.strip()  # as most templates do
        begin = text.find(content, at) if content else -1
        if begin >= 0:
            if begin > at:
                yield text[at:begin], True
            yield content, False
            at = begin + len(content)
    if at < len(text):
        yield text[at:], True
