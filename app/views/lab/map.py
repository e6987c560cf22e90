"""Patching maps in the sheet of runs: the form of one, and the map that is looked at."""

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from app.language import tr
from app.state.lab.repeat import command_of_map
from app.state.lab.runs import effects_of, text_of_run
from app.state.talk.context import DraftTokens
from app.state.workbench import Workbench
from app.theme import fonts
from app.views.lab.fields import check_box, column_of, form_of, time_of
from app.views.token.section import shown
from app.widgets.basics import label
from app.widgets.controls.elided import ElidedLabel
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
DIRECTIONS = {False: tr("Restore (denoising)"), True: tr("Break (noising)")}
SITES = {
    "residual": tr("What leaves a layer"),
    "attention": tr("Attention"),
    "feed_forward": tr("Feed-forward"),
    "heads": tr("Heads"),
    "ffn_moe_down": tr("Experts"),
}
MAP = 260  # pixels of the map's height
PROMPT = "The capital of France is"
OTHER = "The capital of Italy is"


class MapForm(QWidget):
    """Two prompts, their answers, and what is patched."""

    changed = Signal()
    title = tr("Patching map")
    note = NOTE

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.clean, self.corrupt, self.right, self.wrong = (QLineEdit() for _ in range(4))
        self.grid, self.direction = QComboBox(), QComboBox()
        for grid, title in GRIDS.items():
            self.grid.addItem(title, grid)
        for noising, title in DIRECTIONS.items():
            self.direction.addItem(title, noising)
        for field in (self.right, self.wrong):
            field.setPlaceholderText(tr("the likeliest"))
        self.chat = check_box(tr("As chat messages"))
        self.counter = DraftTokens(bench.session, self)
        column = column_of(self)
        column.addLayout(
            form_of(
                (tr("Prompt"), self.clean),
                (tr("Other prompt"), self.corrupt),
                (tr("Right token"), self.right),
                (tr("Wrong token"), self.wrong),
                (tr("Cells"), self.grid),
                (tr("Direction"), self.direction),
            )
        )
        column.addWidget(self.chat)
        self.clean.textChanged.connect(self.counter.set_text)
        for changed in (self.counter.changed, self.grid.currentIndexChanged):
            changed.connect(self.changed)

    def refresh(self) -> None:
        """Begin with prompts to try."""
        if not self.clean.text():
            self.clean.setText(PROMPT)
            self.corrupt.setText(OTHER)

    @property
    def is_ready(self) -> bool:
        """True if it can be started."""
        return self._bench.session.model is not None

    @property
    def request(self) -> MapPatches:
        """The map that the form describes."""
        chat = self.chat.isChecked()
        return MapPatches(
            0,
            clean=text_of_run(self.clean.text(), chat),
            corrupt=text_of_run(self.corrupt.text(), chat),
            right=self.right.text(),
            wrong=self.wrong.text(),
            grid=self.grid.currentData(),
            noising=bool(self.direction.currentData()),
        )

    @property
    def command(self) -> str:
        """The same in a terminal."""
        return command_of_map(self.request, str(self._bench.session.path or "MODEL"))

    @property
    def foreseen(self) -> str:
        """Cost of the map, as far as the file and the last answer tell."""
        found = self._bench.runs.foreseen(self.counter.count or 0, self.grid.currentData())
        if found is None:
            return tr("Open a model and type a prompt to see what the map takes.")
        return tr(
            "{patches} patches, {tokens} tokens: about {time}, {mib} MiB of results in memory",
            patches=grouped(found.patches),
            tokens=grouped(found.tokens),
            time=time_of(self._bench, found.tokens),
            mib=mib(found.bytes),
        )


class MapResult(QWidget):
    """A map, one of its sites at a time; a cell selects its layer or head."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._found: PatchesMapped | None = None
        self.title = ElidedLabel(size="strong")
        self.site = QComboBox()
        self.map = HeatMap(tr("Effects of patches"), diverging=True)
        self.map.setMinimumHeight(fonts.px(MAP))
        self.says = label("", "quiet", wrap=True)
        column = column_of(self)
        column.addWidget(self.title)
        column.addLayout(form_of((tr("Result"), self.site)))
        column.addWidget(self.map)
        column.addWidget(self.says)
        self.site.activated.connect(self._show_map)
        self.map.pointed.connect(self._pointed)

    def show_result(self, found: PatchesMapped) -> None:
        """Another map."""
        self._found = found
        right, wrong = shown(found.right[1]), shown(found.wrong[1])
        self.title.setText(
            tr("{name}: {right} against {wrong}", name=found.name, right=right, wrong=wrong)
        )
        self.site.clear()
        for at, table in enumerate(found.tables):
            self.site.addItem(SITES.get(table.site, table.site), at)
        self._show_map()
        notes = [*found.notes, *([] if found.complete else [tr("Stopped: not complete.")])]
        self.says.setText(" ".join(notes))

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
        self.says.setText(self.map.says(row, column))
        if found.grid == "heads":
            self._bench.selection.select_head(found.layers[row], found.columns[column])
        else:
            self._bench.selection.select_layer(found.layers[row])
