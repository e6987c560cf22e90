"""The form of a server: name, address, key, certificates, headers."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from app.language import tr
from app.remote.connection import Connection
from app.state.models.servers import ServersState, ServerState
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_height
from app.widgets.file_dialogs import open_file
from app.widgets.layouts import STRETCH, hbox, vbox
from engine.errors import BadSetting, CutawayError

KEPT = tr("Leave empty to keep the saved key")
LINES = 3  # of headers that are shown at once


class ServerForm(QWidget):
    """Saves into `servers`, which tests the server at once. A key that others could read on its way
    is not taken without a yes.
    """

    done = Signal()
    refused = Signal()  # not saved; the reason is shown above the buttons

    def __init__(self, servers: ServersState) -> None:
        super().__init__()
        self.setAccessibleName(tr("A server"))
        self._servers = servers
        self._instead = ""
        self.name = _line(tr("Server name"), "work")
        self.url = _line(tr("Server address"), "http://localhost:8085/v1")
        self.key = _line(
            tr("API key"), tr("Only if the server requires one; stored in the system keyring")
        )
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.no_key = _choice(tr("Delete the saved key"))
        self.clear = _choice(tr("Send the key unencrypted"))
        self.ca = _line(tr("Trusted certificate file"), tr("Only for self-signed certificates"))
        self.headers = QPlainTextEdit()
        self.headers.setAccessibleName(tr("Additional headers, one per line"))
        self.headers.setPlaceholderText("X-Team: research")
        self.headers.setTabChangesFocus(True)
        set_height(self.headers, LINES * 24)
        self._warns = label(tone="warn", wrap=True)
        self.problem_text = label(tone="bad", wrap=True)
        certificates = hbox(
            (self.ca, 1),
            Button(tr("Choose…"), self._choose_ca, name=tr("Choose a certificate file")),
            spacing=GRID,
        )
        self.save = Button(tr("Save and test"), self._save, "primary")
        self.cancel = Button(
            tr("Cancel"), self.done.emit, name=tr("Cancel adding or changing the server")
        )
        buttons = hbox(STRETCH, self.cancel, self.save, spacing=GRID)
        vbox(
            self._form(certificates),
            self.problem_text,
            buttons,
            on=self,
            margins=(GRID, GRID, 0, GRID),
        )
        for field in (self.name, self.url, self.key, self.ca):
            field.returnPressed.connect(self._save)
            field.textChanged.connect(self._changed)
        self.show_server(None)

    def _form(self, certificates: QHBoxLayout) -> QFormLayout:
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.addRow(label(tr("Name"), "quiet"), self.name)
        form.addRow(label(tr("Address"), "quiet"), self.url)
        form.addRow(label(tr("Key"), "quiet"), self.key)
        form.addRow(self.no_key)
        form.addRow(self._warns)
        form.addRow(self.clear)
        form.addRow(label(tr("Certificates"), "quiet"), certificates)
        form.addRow(label(tr("Headers"), "quiet"), self.headers)
        return form

    @property
    def problem(self) -> str:
        """Why it was not saved."""
        return self.problem_text.text()

    def show_server(self, server: ServerState | None) -> None:
        """A new one, or one that is to be changed; a key is never shown."""
        now = server.connection if server is not None else Connection("", "")
        self._instead = now.name
        self.name.setText(now.name)
        self.url.setText(now.url)
        self.key.clear()
        self.key.setPlaceholderText(KEPT if server is not None else tr("If required"))
        self.no_key.setVisible(server is not None)
        self.no_key.setChecked(False)
        self.clear.setChecked(now.key_in_clear)
        self.ca.setText(now.ca)
        self.headers.setPlainText("\n".join(f"{n}: {v}" for n, v in now.headers.items()))
        self._changed()

    def _changed(self) -> None:
        self.problem_text.clear()
        self.problem_text.hide()
        open_way = Connection("", self.url.text().strip()).shows_key
        self.clear.setVisible(open_way)
        self._warns.setVisible(open_way)
        self._warns.setText(
            tr(
                "This address is not encrypted (http): others on the network can read the key and"
                " the chats."
            )
        )

    def _save(self) -> None:
        key = self.key.text().strip() or ("" if self.no_key.isChecked() else None)
        try:
            connection = Connection(
                self.name.text().strip(),
                self.url.text().strip(),
                self._headers(),
                self.ca.text().strip(),
                self.clear.isVisibleTo(self) and self.clear.isChecked(),
            )
            if key and connection.shows_key and not connection.key_in_clear:
                raise CutawayError(tr("tick “Send the key unencrypted”, or use an https address"))
            self._check_name(connection.name)
            self._servers.save(connection, key, self._instead)
        except (CutawayError, ValueError) as error:
            text = str(error)
            self.problem_text.setText(f"{text[:1].upper()}{text[1:]}.")
            self.problem_text.show()
            self.refused.emit()
            return
        self.key.clear()
        self.done.emit()

    def _check_name(self, name: str) -> None:
        if name != self._instead and self._servers.named(name) is not None:
            raise BadSetting("name", name, tr("a different name: another server has this one"))

    def _headers(self) -> dict[str, str]:
        lines = [line for line in self.headers.toPlainText().splitlines() if line.strip()]
        pairs = [line.partition(":") for line in lines]
        if not all(colon for _, colon, _ in pairs):
            raise BadSetting(
                "headers", lines[0], tr("one header per line, such as X-Team: research")
            )
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _choose_ca(self) -> None:
        path = open_file(
            self, tr("Certificate file"), tr("Certificates (*.pem *.crt *.cer);;All files (*)")
        )
        if path:
            self.ca.setText(path)


def _choice(text: str) -> QCheckBox:
    box = QCheckBox(text)
    box.setAccessibleName(text)
    return box


def _line(name: str, example: str) -> QLineEdit:
    line = QLineEdit()
    line.setAccessibleName(name)
    line.setPlaceholderText(example)
    return line
