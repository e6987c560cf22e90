"""A list of answers from which the selected numbers can be taken."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QProgressBar, QWidget

from app.language import tr
from app.state.lab.verbs import NO_OTHER
from app.state.talk.message import Message
from app.state.workbench import Workbench
from app.theme.tokens import PADDING
from app.widgets.basics import Button, label
from app.widgets.layouts import STRETCH, hbox, vbox

SNIPPET = 80  # characters of an answer


class TakeView(QWidget):
    """A list of questions with their answers; Enter takes the selection from one."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Take from another answer"))
        self._verbs = bench.verbs
        self._sources: list[Message] = []
        self.title = label("", size="strong", wrap=True)
        self.caption = label("", "quiet", wrap=True)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Other answers"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemActivated.connect(self.take)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Reading the other prompt"))
        self.button = Button(tr("Use its numbers"), self.take, kind="primary")
        self.cancel = Button(tr("Cancel"), self._cancel)
        self.problem = label("", "bad", wrap=True)
        row = hbox((self.bar, 1), STRETCH, self.cancel, self.button)
        vbox(self.title, self.caption, (self.list, 1), self.problem, row, on=self, margins=PADDING)
        self.setFocusProxy(self.list)
        self._verbs.changed.connect(self._show)
        self._verbs.added.connect(self._added)

    def refresh(self) -> None:
        """List the answers of now."""
        found = self._verbs.sources()
        self._sources = [message for message, _ in found]
        self.list.clear()
        for message, question in found:
            answer = " ".join(message.text.split())[:SNIPPET]
            self.list.addItem(QListWidgetItem(f"{question}  ·  {answer}"))
        self.list.setCurrentRow(0)
        self._verbs.problem = ""
        self._show()

    def take(self, _: object = None) -> None:
        """Compute the numbers and add the edit."""
        at = self.list.currentRow()
        if 0 <= at < len(self._sources) and not self._verbs.taking:
            self._verbs.take(self._sources[at])

    def _show(self) -> None:
        target, taking = self._verbs.target, self._verbs.taking
        name = target.name if target is not None else tr("the selection")
        self.title.setText(tr("Take {place} from another answer", place=name))
        self.caption.setText(
            tr(
                "At the last token of the next prompt its numbers are replaced by those that it had"
                " before the answer that you choose."
            )
            if self._sources
            else NO_OTHER
        )
        done, total = self._verbs.progress
        self.bar.setVisible(taking)
        self.bar.setRange(0, total)
        self.bar.setValue(done)
        self.button.setEnabled(bool(self._sources) and target is not None and not taking)
        self.problem.setText(self._verbs.problem)
        self.problem.setVisible(bool(self._verbs.problem))

    def _added(self, _: int) -> None:
        if self.isVisible():
            self.done.emit()

    def _cancel(self) -> None:
        if self._verbs.taking:
            self._verbs.cancel()
        else:
            self.done.emit()
