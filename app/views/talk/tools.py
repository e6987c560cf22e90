"""Tools in the talk: the menu at the composer, the question before a server starts, call cards."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QFrame, QMenu, QPlainTextEdit, QSizePolicy, QWidget

from app.language import tr, tr_n
from app.state.talk.message import Picture
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.tools.builtin import BUILT_IN
from app.tools.calling import CallState, ToolUse
from app.tools.config import ServerConfig, visible
from app.tools.consent import Decision
from app.views.talk.message_row import MessageRow
from app.views.talk.pictures.words import item
from app.widgets.basics import Button, IconButton, label, literal, set_tone, surface
from app.widgets.controls.flow import Flow
from app.widgets.file_dialogs import open_file
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import duration
from app.widgets.pictures.loader import PictureLoader
from app.widgets.pictures.strip import PictureStrip
from app.widgets.tips import set_tip

ARM_MS = 500  # before a click allows anything: one that was meant for something else does not
SHOWN = 100_000  # characters of a text
LINE = 2000  # characters of a line
MOST_LINES = 10
LONGEST = 1000  # characters of a description
TITLES = {
    "calculator": tr("Calculator"),
    "current_time": tr("Current time"),
    "read_attachment": tr("Read attached files"),
}
STATES: dict[CallState, tuple[str, str]] = {
    "writing": (tr("Writing…"), "quiet"),
    "asking": (tr("Needs your consent"), "warn"),
    "running": (tr("Running…"), "quiet"),
    "done": (tr("Done"), "good"),
    "failed": (tr("Failed"), "bad"),
    "denied": (tr("Denied"), "warn"),
    "stopped": (tr("Stopped"), "warn"),
}


class Quoted(QPlainTextEdit):
    """A text of others: plain, selectable, as high as its lines up to MOST_LINES."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str) -> None:
        """Show a text; characters that would not show are spelled out."""
        if text == self.property("whole"):
            return
        self.setProperty("whole", text)
        self.setFont(fonts.mono())
        cut = text[:SHOWN]
        lines = [visible(line) for line in cut.expandtabs(4).split("\n")]
        lines = [line[at : at + LINE] for line in lines for at in range(0, len(line) or 1, LINE)]
        left = len(text) - len(cut)
        self.setPlainText(
            "\n".join([*lines, *([tr("[… {left} characters more]", left=left)] if left else [])])
        )
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._fit)  # in a layout's own turn it would be ignored

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self.font() != fonts.mono():
            self.setFont(fonts.mono())
            QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        lines, block = 0, self.document().firstBlock()
        while block.isValid() and lines < MOST_LINES:
            self.document().documentLayout().blockBoundingRect(block)  # lays it out
            lines += max(1, block.layout().lineCount())
            block = block.next()
        margins = 2 * (self.frameWidth() + int(self.document().documentMargin())) + GRID
        height = min(max(lines, 1), MOST_LINES) * self.fontMetrics().lineSpacing() + margins
        if height != self.height():
            self.setFixedHeight(height)


class ToolsButton(IconButton):
    """Opens the menu of what this chat may call."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__("tools", tr("Tools of this chat"), self.show_menu)
        self._bench = bench

    def refresh(self) -> None:
        """Show in the name how many are on."""
        count = len(self._bench.chat.details.tools)
        name = (
            tr("Tools of this chat: {count} on", count=count) if count else tr("Tools of this chat")
        )
        if name != self.accessibleName():
            self.set_picture("tools", name)
        self.setProperty("checked", "true" if count else "false")

    def menu_of(self) -> QMenu:
        """The menu as it is now."""
        menu, tools = QMenu(self), self._bench.tools
        tools.refresh()
        for name in BUILT_IN:
            self._add(menu, name, TITLES[name])
        menu.addSeparator()
        for server in tools.servers:
            problem = tools.problems.get(server.name)
            self._add(menu, server.name, visible(server.name), problem or tr("Server"))
        if not tools.servers:
            menu.addAction(tr("No servers")).setEnabled(False)
        always = [tool for tool in tools.known.values() if not tool.destructive]
        if always:
            allowed = menu.addMenu(tr("Always allow"))
            for tool in always:
                action = QAction(tool.full, allowed)
                action.setCheckable(True)
                action.setChecked(tools.consent.is_always(tool))
                action.triggered.connect(
                    lambda on, tool=tool: tools.consent.set_always(tool, bool(on))
                )
                allowed.addAction(action)
        menu.addSeparator()
        menu.addAction(tr("Import servers…"), self._import)
        if n := tools.plain_keys:
            words = tr_n("Move {n} key to the keyring", "Move {n} keys to the keyring", n)
            menu.addAction(words, tools.keep_secrets)
        edit = menu.addAction(tr("Edit mcp.json"), self._edit)
        edit.setEnabled(tools.path.exists())
        return menu

    def show_menu(self) -> None:
        """Open it above the button."""
        menu = self.menu_of()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def _add(self, menu: QMenu, name: str, title: str, tip: str = "") -> None:
        action = QAction(literal(title), menu)
        action.setCheckable(True)
        action.setChecked(name in self._bench.chat.details.tools)
        set_tip(action, tip)
        action.triggered.connect(lambda on: self._switch(name, on))
        menu.addAction(action)

    def _switch(self, name: str, on: bool) -> None:
        names = [other for other in self._bench.chat.details.tools if other != name]
        self._bench.chat.details.set_tools([*names, *([name] if on else [])])

    def _import(self) -> None:
        path = open_file(self, tr("Import servers"), tr("JSON (*.json)"))
        if path:
            self._bench.tools.import_servers(Path(path))

    def _edit(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._bench.tools.path)))


class ServerQuestion(QWidget):
    """Asks whether a server may start, with its command. Hidden where there is no question."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._server: ServerConfig | None = None
        self.words = label("", size="strong", wrap=True)
        self.rights = label("", "quiet", "small", wrap=True)
        self.command = Quoted(tr("Command of the server"))
        self.refuse = Button(tr("Don't run"), lambda: self._decide(False))
        self.run = Button(tr("Run"), lambda: self._decide(True))
        buttons = hbox(STRETCH, self.refuse, self.run, spacing=GRID)
        vbox(
            self.words,
            self.rights,
            self.command,
            buttons,
            on=self,
            margins=(0, 0, 0, GRID),
            spacing=GRID // 2,
        )
        self.hide()
        bench.tools.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the server in question."""
        server = self._bench.tools.in_question
        if server is self._server and self.isHidden() == (server is None):
            return
        self._server = server
        self.setVisible(server is not None)
        if server is None:
            return
        name = visible(server.name)
        if server.url:
            self.words.setText(tr("Connect to the tool server {name}?", name=name))
            self.rights.setText(tr("It receives the arguments of the calls that you allow."))
            self.run.set_text(tr("Connect"))
            self.refuse.set_text(tr("Don't connect"))
        else:
            self.words.setText(tr("Run the tool server {name}?", name=name))
            self.rights.setText(tr("This command runs as a program with all your rights:"))
            self.run.set_text(tr("Run"))
            self.refuse.set_text(tr("Don't run"))
        self.command.show_text(server.shown)
        self.setAccessibleName(self.words.text())
        _arm(self.run)

    def _decide(self, allowed: bool) -> None:
        if self._server is not None:
            self._bench.tools.allow_start(self._server, allowed)


class CallCard(QFrame):
    """One call: name, arguments, state and time, and its result, folded. While it needs consent,
    the buttons for that.
    """

    def __init__(self, row: MessageRow, loader: PictureLoader, resized: Callable[[], object]):
        super().__init__()
        surface(self, "card")
        self._row, self._loader, self._resized = row, loader, resized
        self.use = ToolUse("", "", "")
        self.name = label("", size="strong", wrap=True)
        self.state = label("", "quiet", "small", wrap=True)
        self.arguments = Quoted(tr("Arguments of the call"))
        self.about = label("", "quiet", "small", wrap=True)
        self.warning = label(tr("This tool may destroy data."), "bad", "small", wrap=True)
        self.deny = Button(tr("Deny"), lambda: self._decide("deny"))
        self.once = Button(tr("Allow once"), lambda: self._decide("once"))
        self.chat = Button(tr("Allow this tool in this chat"), lambda: self._decide("chat"))
        self.buttons = Flow(tr("Consent"))
        self.buttons.show_items([self.deny, self.once, self.chat])
        self.fold = Button("", self.toggle, "link")
        self.result = Quoted(tr("Result of the call"))
        self.result.hide()
        self.pictures = PictureStrip(tr("Pictures of the result"), loader)
        self.pictures.opened.connect(lambda at: row.picture_wanted.emit(self._shown(), at))
        top = hbox((self.name, 1), self.state, spacing=GRID)
        folded = hbox(self.fold, STRETCH)
        vbox(
            top,
            self.about,
            self.arguments,
            self.warning,
            self.buttons,
            folded,
            self.result,
            self.pictures,
            on=self,
            margins=GRID,
            spacing=GRID // 2,
        )

    def show_use(self, use: ToolUse) -> None:
        """Show a call as it is now."""
        before, self.use = self.use, use
        words, tone = STATES[use.state]
        if not use.ended and not self._row.answering:
            words, tone = tr("Interrupted"), "warn"
        took = tr(" in {seconds}", seconds=duration(use.seconds)) if use.seconds >= 0.1 else ""
        self.name.setText(visible(use.name))
        self.state.setText(f"{words}{took}")
        set_tone(self.state, tone)
        self.setAccessibleName(
            tr("Call of {name}: {words}{took}", name=visible(use.name), words=words, took=took)
        )
        self.arguments.setVisible(use.arguments not in ("", "{}"))
        self.arguments.show_text(use.arguments)
        asks = use.state == "asking" and self._row.answering
        if asks and before.state != "asking":
            _arm(self.once)
            _arm(self.chat)
        self.buttons.setVisible(asks)
        tool = self._row.tool_of(use.id) if asks else None
        self.about.setVisible(tool is not None)
        if tool is not None:
            words = tr(
                "Server {server}: {description}",
                server=tool.server,
                description=tool.description or tr("no description"),
            )
            self.about.setText(visible(" ".join(words.split()))[:LONGEST])
        self.warning.setVisible(tool is not None and tool.destructive)
        self.fold.setVisible(use.ended and bool(use.result))
        self._name_fold()
        self.result.show_text(use.result)
        shown = self._shown() if use.ended else ()
        items = [item(picture, self._row.pictures_in_engine, self._loader) for picture in shown]
        self.pictures.show_items(items)

    def toggle(self) -> None:
        """Unfold or fold the result."""
        self.result.setVisible(self.result.isHidden())
        self._name_fold()
        self._resized()

    def _name_fold(self) -> None:
        folded = self.result.isHidden()
        self.fold.setText(tr("{value}  Result", value="▸" if folded else "▾"))
        self.fold.setAccessibleName(
            tr("Result, {value}", value=tr("folded") if folded else tr("unfolded"))
        )

    def _shown(self) -> Sequence[Picture]:
        hashes = set(self.use.pictures)
        return [picture for picture in self._row.message.pictures if picture.hash in hashes]

    def _decide(self, decision: Decision) -> None:
        self._row.decide_call(self.use.id, decision)


class CallList(QWidget):
    """The calls of an answer, in order."""

    resized = Signal()

    def __init__(self, row: MessageRow, loader: PictureLoader) -> None:
        super().__init__()
        self._row, self._loader = row, loader
        self.cards: list[CallCard] = []
        self._column = vbox(on=self)
        self.setAccessibleName(tr("Calls of tools"))
        self._loader.ready.connect(self.refresh)
        self._row.pictures_in_engine.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show the calls as they are now."""
        uses = self._row.message.calls
        while len(self.cards) > len(uses):
            gone = self.cards.pop()
            gone.hide()
            gone.deleteLater()
        while len(self.cards) < len(uses):
            card = CallCard(self._row, self._loader, self.resized.emit)
            self.cards.append(card)
            self._column.addWidget(card)
            card.show()
        for card, use in zip(self.cards, uses, strict=True):
            card.show_use(use)


def _arm(button: Button) -> None:
    """Have a button take clicks a moment after it has appeared."""
    button.setEnabled(False)
    QTimer.singleShot(ARM_MS, button, lambda: button.setEnabled(True))
