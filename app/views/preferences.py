"""The preferences of the window."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QWidget

from app.language import NAMES, tr
from app.state.preferences import PreferencesState
from app.state.tools.tools import ToolsState
from app.theme.tokens import GRID, PADDING
from app.tools.config import visible
from app.tools.consent import Allowance
from app.widgets.basics import Button, IconButton, divider, label, scrolled
from app.widgets.controls.elided import ElidedLabel
from app.widgets.file_dialogs import choose_folder
from app.widgets.layouts import hbox, vbox
from app.widgets.numbers import grouped
from app.widgets.tips import set_tip
from app.work import Work
from engine.kept import KeptFile, delete_prepared, prepared_files
from engine.prefixes import delete_prefixes, kept_prefixes
from engine.settings import AUTOMATIC, model_folders
from engine.units import GB

THEMES = {
    tr("Match system"): "system",
    tr("Light"): "light",
    tr("Dark"): "dark",
    tr("High contrast"): "contrast",
}
LANGUAGES = {tr("Match system"): "system"} | {name: code for code, name in NAMES.items()}
SEND_KEYS = {"Enter": "enter", "Ctrl+Enter": "ctrl+enter"}
DENSITIES = {tr("Comfortable"): "comfortable", tr("Compact"): "compact"}
CONTEXTS = {tr("Automatic"): None} | {
    tr("{n} tokens", n=grouped(n)): n for n in (2048, 4096, 8192, 16384)
}
LIMITS = {tr("Automatic"): None, tr("Keep none"): 0} | {
    tr("Keep at most {n} GB", n=n): n for n in (10, 20, 50, 100, 200, 500)
}
DRAFTS = {
    tr("Off"): "none",
    tr("Automatic"): "auto",
    tr("From earlier text (n-gram)"): "ngram",
    tr("From a draft model"): "draft",
    tr("From the model itself (MTP)"): "mtp",
}
KEPT_CHATS = {tr("Automatic"): AUTOMATIC, tr("Keep none"): 0} | {
    tr("Keep at most {n} GB", n=n): n for n in (1, 2, 5, 10, 20, 50, 100)
}
SIZES = {f"{part:.0%}": part for part in (0.75, 0.9, 1.0, 1.15, 1.3, 1.6, 2.0)}

WHAT_FOR = tr(
    "Prepared weights are a copy of the model repacked for the CPU. They make it open faster"
    " the next time."
)
WHY_CHATS = tr(
    "What the model has read of a chat is kept, so that an old chat continues at once."
    " It is deleted with the chat; clearing it keeps all chats."
)


class KeptFiles(QWidget):
    """Shows what some files of the program are for and their size, with a button to delete them."""

    def __init__(
        self,
        name: str,
        why: str,
        files: Callable[[], Sequence[KeptFile]],
        delete: Callable[[], None],
    ) -> None:
        """`name` is the button's for assistive technology."""
        super().__init__()
        self._files, self._delete_files = files, delete
        self.size_shown = label("", "quiet")
        self.delete = Button(tr("Clear"), self._delete, name=name)
        line = hbox((self.size_shown, 1), self.delete, spacing=GRID)
        vbox(label(why, "quiet", wrap=True), line, on=self)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._count()

    def _count(self) -> None:
        Work(self._files).then(self._show).start(self)

    def _show(self, files: Sequence[KeptFile]) -> None:
        size = sum(one.size for one in files)
        self.size_shown.setText(
            tr("{size:.1f} GB stored", size=size / GB) if files else tr("Nothing stored")
        )
        self.delete.setEnabled(bool(files))

    def _delete(self) -> None:
        self.delete.setEnabled(False)
        Work(self._delete_files).then(lambda _: self._count()).fail(self.size_shown.setText).start(
            self
        )


class AllowedTools(QWidget):
    """Lists the servers that may start and the tools that are always allowed, each with a button
    to withdraw that.
    """

    def __init__(self, tools: ToolsState) -> None:
        super().__init__()
        self._tools = tools
        self._shown: list[Allowance] | None = None
        self.setAccessibleName(tr("Allowed tools"))
        self.none = label(tr("No server or tool is always allowed."), "quiet", wrap=True)
        self.revoke: list[Button] = []
        self._rows = vbox(spacing=GRID // 2)
        vbox(self.none, self._rows, on=self, spacing=6)
        tools.changed.connect(self._refresh)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._refresh()

    def _refresh(self) -> None:
        allowed = self._tools.consent.allowances
        if self.isHidden() or allowed == self._shown:
            return
        focused = any(button.hasFocus() for button in self.revoke)
        self._shown, self.revoke = allowed, []
        self.none.setVisible(not allowed)
        while (item := self._rows.takeAt(0)) is not None and (row := item.widget()) is not None:
            row.deleteLater()
        for one in allowed:
            server = visible(one.server) or tr("an earlier server")
            words = tr("{server} may start", server=server)
            if one.tool:
                words = tr("{server}: {tool}", server=server, tool=visible(one.tool))
            self._rows.addWidget(self._row(one, words))
        if focused and self.revoke:
            self.revoke[0].setFocus()

    def _row(self, allowance: Allowance, words: str) -> QWidget:
        line = QWidget()
        row = hbox(on=line)
        shown = ElidedLabel()
        shown.setText(words)
        act = partial(self._tools.revoke, allowance)
        button = Button(tr("Revoke"), act, name=tr("Revoke: {words}", words=words))
        self.revoke.append(button)
        row.addWidget(shown, 1)
        row.addWidget(button)
        return line


class PreferencesView(QWidget):
    """Every choice takes effect at once."""

    done = Signal()

    def __init__(self, preferences: PreferencesState, tools: ToolsState | None = None) -> None:
        super().__init__()
        self.setAccessibleName(tr("Preferences"))
        self.tools = AllowedTools(tools) if tools is not None else None
        self._preferences = preferences
        title = label(tr("Preferences"), size="strong")
        head = hbox((title, 1), IconButton("close", tr("Close preferences"), self.done.emit, 16))
        self.theme = self._choice(tr("Theme"), THEMES, "theme")
        self.language = self._choice(tr("Language"), LANGUAGES, "language")
        set_tip(self.language, tr("Takes effect when Cutaway starts again"))
        self.send_key = self._choice(tr("Send with"), SEND_KEYS, "send_key")
        self.text_size = self._choice(tr("Text size"), SIZES, "font_scale")
        self.density = self._choice(tr("Row height"), DENSITIES, "density")
        self.context = self._choice(tr("Default context length"), CONTEXTS, "default_ctx")
        self.prepared = self._choice(tr("Keep prepared weights on disk"), LIMITS, "prepared_gb")
        self.weights = KeptFiles(
            tr("Delete all prepared weights"), WHAT_FOR, prepared_files, delete_prepared
        )
        self.chats_kept = self._choice(
            tr("Keep what chats have read on disk"), KEPT_CHATS, "kept_chats"
        )
        self.chats = KeptFiles(
            tr("Delete all that chats have read"), WHY_CHATS, kept_prefixes, delete_prefixes
        )
        self.speculation = self._choice(tr("Speculation"), DRAFTS, "speculation")
        set_tip(
            self.speculation,
            tr("Guess the next tokens and check several in one step. The answer stays the same."),
        )
        self.open_last = self._switch(tr("Reopen the last model"), "open_last_model")
        vbox(head, divider(), (scrolled(self._rows()), 1), on=self, margins=PADDING, spacing=12)
        self.setFocusProxy(self.theme)
        preferences.changed.connect(self.refresh)
        self.refresh()

    def _rows(self) -> QWidget:
        """Lay the choices out, each with its label."""
        body = QWidget()
        form = QFormLayout(body)
        form.setContentsMargins(0, 0, GRID, 0)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setHorizontalSpacing(3 * GRID)
        form.setVerticalSpacing(GRID + 4)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(label(tr("Theme"), "quiet"), self.theme)
        form.addRow(label(tr("Language"), "quiet"), self.language)
        form.addRow(label(tr("Text size"), "quiet"), self.text_size)
        form.addRow(label(tr("Row height"), "quiet"), self.density)
        form.addRow(label(tr("Send with"), "quiet"), self.send_key)
        form.addRow(label(tr("At start"), "quiet"), self.open_last)
        form.addRow(label(tr("Context length"), "quiet"), self.context)
        form.addRow(label(tr("Speculative decoding"), "quiet"), self.speculation)
        form.addRow(label(tr("Models folder"), "quiet"), self._folder())
        form.addRow(label(tr("Prepared weights"), "quiet"), self.prepared)
        form.addRow(self.weights)
        form.addRow(label(tr("Chat cache"), "quiet"), self.chats_kept)
        form.addRow(self.chats)
        if self.tools is not None:
            form.addRow(label(tr("Tools"), "quiet"), self.tools)
        return body

    def refresh(self) -> None:
        value = self._preferences.value
        self.text_size.setPlaceholderText(f"{value.font_scale:.0%}")  # shown between the sizes
        for box, now in (
            (self.theme, value.theme),
            (self.language, value.language),
            (self.send_key, value.send_key),
            (self.density, value.density),
            (self.context, value.default_ctx),
            (self.prepared, value.prepared_gb),
            (self.chats_kept, value.kept_chats),
            (self.speculation, value.speculation),
            (self.text_size, value.font_scale),
        ):
            box.setCurrentIndex(box.findData(now))
        self.open_last.setChecked(value.open_last_model)
        folder = str(model_folders(self._preferences.models_folder)[0])
        self._shown_folder.setText(folder)
        self._shown_folder.setAccessibleName(tr("Models folder: {folder}", folder=folder))

    def _choice(self, name: str, choices: dict[str, Any], field: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        for text, value in choices.items():
            box.addItem(text, value)
        box.activated.connect(lambda at: self._preferences.update(**{field: box.itemData(at)}))
        return box

    def _switch(self, text: str, field: str) -> QCheckBox:
        box = QCheckBox(text)
        box.setAccessibleName(text)
        box.clicked.connect(lambda on: self._preferences.update(**{field: on}))
        return box

    def _folder(self) -> QWidget:
        line = QWidget()
        row = hbox(on=line)
        self._shown_folder = ElidedLabel(where=Qt.TextElideMode.ElideMiddle)
        row.addWidget(self._shown_folder, 1)
        row.addWidget(
            Button(tr("Change…"), self._choose_folder, name=tr("Change the models' folder"))
        )
        return line

    def _choose_folder(self) -> None:
        folder = choose_folder(self, tr("Models folder"))
        if folder:
            self._preferences.update(models_folder=folder)
