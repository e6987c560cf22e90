"""Patching maps in the sheet of runs: the form of one, and the map that is looked at."""

import msgspec
import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QLineEdit, QSpinBox, QWidget

from app.language import tr
from app.state.lab.causes import ExaminedWord
from app.state.lab.repeat import command_of_map
from app.state.lab.runs import effects_of, text_of_run
from app.state.selection import BadLink
from app.state.talk.context import DraftTokens
from app.state.token.word import Key
from app.state.workbench import Workbench
from app.theme import fonts
from app.views.lab.fields import check_box, form_of, time_of
from app.views.token.section import shown
from app.widgets.basics import Button, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import vbox
from app.widgets.numbers import UNKNOWN, grouped, mib
from app.widgets.plots.cells import grid_of
from app.widgets.plots.heat_map import HeatMap
from engine.protocol import MapPatches, PatchesMapped, PatchGrid

NOTE = tr(
    "Results of one prompt are put into the run of another, one at a time: a cell says how much of"
    " the difference between both answers comes back. 0 changes nothing, 1 restores the answer."
)
GRIDS: dict[PatchGrid, str] = {
    "residual": tr("Layers by position"),
    "parts": tr("Attention and feed-forward"),
    "heads": tr("Heads"),
    "experts": tr("Experts"),
}
SOURCES = {False: tr("Another prompt"), True: tr("Noise on the embeddings")}
DIRECTIONS = {False: tr("Restore (denoising)"), True: tr("Break (noising)")}
SITES = {
    "residual": tr("What leaves a layer"),
    "attention": tr("Attention"),
    "feed_forward": tr("Feed-forward"),
    "heads": tr("Heads"),
    "ffn_moe_down": tr("Experts"),
}
SO_FAR = 60  # characters of an answer's beginning
MAP = 260  # pixels of the map's height
NOISE, MOST_NOISE = 3.0, 1000.0  # standard deviations
SEEDS, MOST_SEEDS = 10, 100
PROMPT = "The capital of France is"
OTHER = "The capital of Italy is"


class MapForm(QWidget):
    """Two prompts, their answers, and what is patched; or the chat before a word of an answer, with
    another question. Noise on a part of the prompt can take the place of the other one.
    """

    changed = Signal()
    title = tr("Patching map")
    note = NOTE

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.word: ExaminedWord | None = None
        self._read = 0  # tokens before the word, as far as they are known
        self.about = label("", wrap=True)
        self.leave = Button(tr("Type both prompts instead"), self._leave_word, "link")
        self.clean, self.corrupt, self.right, self.wrong = (QLineEdit() for _ in range(4))
        self.source, self.grid, self.direction = QComboBox(), QComboBox(), QComboBox()
        self.noise, self.subject, self.seeds = QDoubleSpinBox(), QLineEdit(), QSpinBox()
        self.noise.setRange(0.01, MOST_NOISE)
        self.noise.setValue(NOISE)
        self.seeds.setRange(1, MOST_SEEDS)
        self.seeds.setValue(SEEDS)
        self.subject.setPlaceholderText(tr("all but the first token"))
        for noisy, title in SOURCES.items():
            self.source.addItem(title, noisy)
        for grid, title in GRIDS.items():
            self.grid.addItem(title, grid)
        for noising, title in DIRECTIONS.items():
            self.direction.addItem(title, noising)
        for field in (self.right, self.wrong):
            field.setPlaceholderText(tr("the likeliest"))
        self.chat = check_box(tr("As chat messages"))
        self.counter = DraftTokens(bench.session, self)
        self._lay_out()
        self._connect()
        self._show_source()

    def _lay_out(self) -> None:
        self._rows = form_of(
            (tr("Prompt"), self.clean),
            (tr("Compared with"), self.source),
            (tr("Other prompt"), self.corrupt),
            (tr("Noise (standard deviations)"), self.noise),
            (tr("Part of the prompt"), self.subject),
            (tr("Seeds"), self.seeds),
            (tr("Right token"), self.right),
            (tr("Wrong token"), self.wrong),
            (tr("Cells"), self.grid),
            (tr("Direction"), self.direction),
        )
        vbox(self.about, (self.leave, Qt.AlignmentFlag.AlignLeft), self._rows, self.chat, on=self)

    def _connect(self) -> None:
        self.clean.textChanged.connect(self.counter.set_text)
        self.source.currentIndexChanged.connect(self._show_source)
        for changed in (
            self.counter.changed,
            self.grid.currentIndexChanged,
            self.corrupt.textChanged,
            self.seeds.valueChanged,
        ):
            changed.connect(self.changed)
        self._show_word()

    def show_word(self, word: ExaminedWord, grid: PatchGrid) -> None:
        """Describe the map of a word, with the keyboard in the field of the other question."""
        self.word = word
        inside = self._bench.token.inside
        known = inside is not None and inside.word.key == word.word.key
        self._read = inside.n_context if inside is not None and known else 0
        self.clean.setText(word.question)
        self.corrupt.setText(word.question)
        self.right.setText(shown(word.word.text))
        self.wrong.clear()
        self.source.setCurrentIndex(self.source.findData(False))
        self.grid.setCurrentIndex(self.grid.findData(grid))
        self._show_word()
        self.corrupt.setFocus()
        self.corrupt.selectAll()

    def _leave_word(self) -> None:
        """Map two prompts that are typed."""
        self.word, self._read = None, 0
        self.right.clear()
        self._show_word()
        self.clean.setFocus()

    @property
    def is_noisy(self) -> bool:
        """True if noise takes the place of the other prompt."""
        return bool(self.source.currentData())

    def _show_source(self) -> None:
        """Show the fields of the other prompt, or of the noise."""
        self._rows.setRowVisible(self.corrupt, not self.is_noisy)
        for field in (self.noise, self.subject, self.seeds):
            self._rows.setRowVisible(field, self.is_noisy)
        self._show_word()

    def _show_word(self) -> None:
        word = self.word
        self.about.setText(word_note(word, self.is_noisy) if word is not None else "")
        for widget in (self.about, self.leave):
            widget.setVisible(word is not None)
        for field in (self.clean, self.right):
            field.setReadOnly(word is not None)
        self.chat.setVisible(word is None)
        self.changed.emit()

    def refresh(self) -> None:
        """Begin with prompts to try."""
        if not self.clean.text():
            self.clean.setText(PROMPT)
            self.corrupt.setText(OTHER)

    @property
    def is_ready(self) -> bool:
        """True if it can be started."""
        word = self.word
        differ = self.is_noisy or word is None or self.corrupt.text() != word.question
        return self._bench.session.model is not None and differ

    @property
    def request(self) -> MapPatches:
        """The map that the form describes."""
        chat, word, other = self.chat.isChecked(), self.word, self.corrupt.text()
        request = MapPatches(
            0,
            clean=text_of_run(self.clean.text(), chat) if word is None else word.clean,
            corrupt=text_of_run(other, chat) if word is None else word.other(other),
            right=self.right.text() if word is None else word.token,
            wrong=self.wrong.text(),
            grid=self.grid.currentData(),
            noising=bool(self.direction.currentData()),
        )
        if not self.is_noisy:
            return request
        return msgspec.structs.replace(
            request,
            corrupt=request.clean,
            noise=self.noise.value(),
            subject=self.subject.text(),
            seeds=self.seeds.value(),
        )

    @property
    def about_word(self) -> Key | None:
        """The word that the map is about, if it is."""
        return None if self.word is None else self.word.word.key

    @property
    def command(self) -> str:
        """The same in a terminal."""
        request = self.request
        if self.word is not None:
            request = msgspec.structs.replace(request, right=self.word.word.text)
        return command_of_map(request, str(self._bench.session.path or "MODEL"))

    @property
    def foreseen(self) -> str:
        """Cost of the map, as far as the file and the last answer show."""
        tokens = self._read or self.counter.count or 0
        seeds = self.seeds.value() if self.is_noisy else 1
        found = self._bench.runs.foreseen(tokens, self.grid.currentData(), seeds)
        if found is None:
            return tr("Open a model and type a prompt to see what the map takes.")
        return tr(
            "{patches} patches, {tokens} tokens: about {time}, {mib} MiB of results in memory",
            patches=grouped(found.patches),
            tokens=grouped(found.tokens),
            time=time_of(self._bench, found.tokens),
            mib=mib(found.bytes),
        )


def word_note(word: ExaminedWord, noisy: bool) -> str:
    """Say which word a map is about, and what to do for it."""
    text = tr("What causes the token {token} of the answer?", token=f"“{shown(word.word.text)}”")
    so_far = " ".join(word.request.prefix.split())
    if so_far:
        last = so_far if len(so_far) <= SO_FAR else f"…{so_far[1 - SO_FAR :]}"
        text += " " + tr("Both runs have its beginning: “{text}”.", text=last)
    if noisy:
        return text
    return text + " " + tr("Change the question so that the answer becomes another one.")


class MapResult(QWidget):
    """A map, one of its sites at a time; a cell selects its layer or head. Of a word of the chat it
    opens in the Token view.
    """

    opened = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._found: PatchesMapped | None = None
        self.title = ElidedLabel(size="strong")
        self.site = QComboBox()
        self.map = HeatMap(tr("Effects of patches"), diverging=True)
        self.map.setMinimumHeight(fonts.px(MAP))
        self.caption = label("", "quiet", wrap=True)
        self.open = Button(tr("Show in the Token view"), self._open)
        vbox(
            self.title,
            form_of((tr("Result"), self.site)),
            self.map,
            self.caption,
            (self.open, Qt.AlignmentFlag.AlignLeft),
            on=self,
        )
        self.site.activated.connect(self._show_map)
        self.map.pointed.connect(self._pointed)

    def show_result(self, found: PatchesMapped) -> None:
        """Another map."""
        self._found = found
        self.open.setVisible(self._bench.runs.word is not None)
        right, wrong = shown(found.right[1]), shown(found.wrong[1])
        self.title.setText(
            tr("{name}: {right} against {wrong}", name=found.name, right=right, wrong=wrong)
        )
        self.site.clear()
        for at, table in enumerate(found.tables):
            self.site.addItem(SITES.get(table.site, table.site), at)
        self._show_map()
        notes = [*found.notes, *([] if found.complete else [tr("Stopped: not complete.")])]
        self.caption.setText(" ".join(notes))

    def _show_map(self) -> None:
        found, at = self._found, self.site.currentData()
        if found is None or at is None:
            return
        by_position = found.grid in ("residual", "parts")

        def column(number: int) -> str:
            place = found.columns[number]
            return f"{place} {shown(found.tokens[place])}" if by_position else str(place)

        grid = grid_of(
            effects_of(found, int(at)),
            row_title=tr("layer"),
            row_name=lambda row: str(found.layers[row]),
            column_title=tr("token") if by_position else tr("head"),
            column_name=column,
            text=lambda value: UNKNOWN if np.isnan(value) else f"{value:.2f}",
        )
        self.map.show_cells(grid, (-1.0, 1.0))

    def _pointed(self, row: int, column: int) -> None:
        """Say what a cell is, and select its layer or head."""
        found = self._found
        if found is None:
            return
        self.caption.setText(self.map.describe(row, column))
        if found.grid == "heads":
            self._bench.selection.select_head(found.layers[row], found.columns[column])
        else:
            self._bench.selection.select_layer(found.layers[row])

    def _open(self) -> None:
        """Show the cell's token, or the word, with its layer or head in the Token view."""
        found, word, causes = self._found, self._bench.runs.word, self._bench.causes
        row, column = self.map.at
        if found is None or word is None or not (found.layers and found.columns):
            return
        try:
            self._bench.follow(causes.link(found, word, row, column))
        except BadLink as error:
            self.caption.setText(str(error))
            return
        causes.look(found, word, column)
        self._bench.selection.show_in("token")
        self.opened.emit()
