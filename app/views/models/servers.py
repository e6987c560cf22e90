"""Servers elsewhere: a line for each, with its models; adding, changing, testing, removing."""

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QWidget

from app.language import tr, tr_n
from app.remote.connection import ServedModel
from app.state.models.servers import ServerState
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.models.server_form import ServerForm
from app.widgets.basics import Button, label, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import duration, grouped

NONE = tr("Chat with a model on another machine: vLLM, llama-server, Ollama, Cutaway and others.")


class ServersView(QWidget):
    """Shows `bench.servers`; opens their models with `bench.open_model`."""

    opening = Signal()
    editing = Signal()  # the form is shown

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.lines: dict[str, ServerLine] = {}
        self._none = label(NONE, "quiet", wrap=True)
        self._column = vbox(spacing=GRID)
        self.form = ServerForm(bench.servers)
        self.form.hide()
        self.add = Button(tr("Add a server…"), lambda: self.edit(None), picture="plus")
        head = hbox((label(tr("Servers"), "quiet"), 1), self.add)
        vbox(head, self._none, self._column, self.form, on=self)
        self.form.done.connect(self._edited)
        bench.servers.changed.connect(self.refresh)
        bench.session.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """A line a server, in the order they were added."""
        servers = {server.connection.name: server for server in self._bench.servers.all}
        for name in set(self.lines) - set(servers):
            self.lines.pop(name).deleteLater()
        for at, (name, server) in enumerate(servers.items()):
            if name not in self.lines:
                self.lines[name] = ServerLine(self._bench, name, self.edit, self._open)
            self._column.insertWidget(at, self.lines[name])
            self.lines[name].show_server(server)
        self._none.setVisible(not servers and self.form.isHidden())

    def edit(self, server: ServerState | None) -> None:
        """Show the form: of a new one, or of one to be changed."""
        self.form.show_server(server)
        self.form.show()
        self.form.name.setFocus()
        self.refresh()
        self.editing.emit()

    def _edited(self) -> None:
        self.form.hide()
        self.add.setFocus()
        self.refresh()

    def _open(self, name: str, model: str) -> None:
        self._bench.open_model(self._bench.servers.path(name, model))
        self.opening.emit()


class ServerLine(QWidget):
    """One server: what it is, its models, and what can be done with it."""

    def __init__(
        self,
        bench: Workbench,
        name: str,
        edit: Callable[[ServerState], None],
        chat: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._bench, self._name = bench, name
        self._server: ServerState | None = None
        self._title = ElidedLabel(name)
        self.caption = label(tone="quiet", size="small", wrap=True)
        self.models = QComboBox()
        self.models.setAccessibleName(tr("Models of {name}", name=name))
        self.models.setMinimumContentsLength(10)
        self.models.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.models.currentTextChanged.connect(self._show_facts)
        self.facts = label(tone="quiet", size="small", wrap=True)
        self.chat = Button(
            tr("Chat"),
            lambda: chat(name, self.models.currentText()),
            name=tr("Chat with {name}", name=name),
        )
        self.test = Button(
            tr("Test"),
            lambda: bench.servers.test(name),
            "link",
            name=tr("Test {name} and list its models", name=name),
        )
        self.change = Button(
            tr("Edit…"), lambda: self._edit(edit), "link", name=tr("Edit {name}", name=name)
        )
        self.remove = Button(
            tr("Remove"),
            lambda: bench.servers.remove(name),
            "link",
            name=tr("Remove {name}", name=name),
        )
        choice = hbox((self.models, 1), self.chat, spacing=GRID)
        links = hbox(self.test, self.change, self.remove, STRETCH, spacing=GRID)
        vbox(
            self._title,
            self.caption,
            choice,
            self.facts,
            links,
            on=self,
            margins=(GRID, 6, 0, 6),
            spacing=4,
        )

    def show_server(self, server: ServerState) -> None:
        """Show the state of the server."""
        same = self._server is not None and self._server.models == server.models
        self._server = server
        self._title.setText(f"{self._name}  ·  {server.connection.host}")
        self.caption.setText(_words(server))
        set_tone(self.caption, "bad" if server.problem else "warn" if server.note else "quiet")
        if not same:
            chosen = self.models.currentText()
            self.models.clear()
            self.models.addItems(server.models)
            self.models.setCurrentText(chosen)
        self._show_facts()
        self.models.setVisible(bool(server.models))
        self.chat.setVisible(bool(server.models))
        self.test.setEnabled(not server.testing)

    def _show_facts(self) -> None:
        """Show the facts of the selected model."""
        chosen = self.models.currentText()
        model = self._server.model(chosen) if self._server is not None else None
        self.facts.setText(_facts(model) if model is not None else "")
        self.facts.setVisible(bool(self.facts.text()))

    def _edit(self, edit: Callable[[ServerState], None]) -> None:
        if self._server is not None:
            edit(self._server)


def _facts(model: ServedModel) -> str:
    """Its context, and whether it reads pictures; nothing where the server does not report."""
    parts = (
        [tr("{n_ctx} tokens of context", n_ctx=grouped(model.n_ctx))]
        if model.n_ctx is not None
        else []
    )
    if model.sees is not None:
        parts.append(tr("reads pictures") if model.sees else tr("reads text only"))
    return "  ·  ".join(parts)


def _words(server: ServerState) -> str:
    """Describe the server's last response, or its error."""
    if server.testing:
        return tr("Listing its models …")
    if server.problem:
        words = server.problem.removeprefix(f"server {server.connection.name}: ")
        return f"{words[:1].upper()}{words[1:]}."
    if server.probed is None:
        return tr("Not tested yet. Test lists its models.")
    count = len(server.models)
    models = tr_n("{n} model", "{n} models", count)
    text = tr(
        "{kind}  ·  {models}  ·  responds in {seconds}",
        kind=server.kind,
        models=models,
        seconds=duration(server.probed.seconds),
    )
    return f"{text}\n{server.note}" if server.note else text
