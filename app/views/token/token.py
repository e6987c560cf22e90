"""How a word came to be: logit lens, attention, choice and time, beside or below each other."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication, QHideEvent, QImage, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QScrollArea, QWidget

from app.language import tr
from app.state.token.token import TokenState
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.token.attention import AttentionPanel
from app.views.token.choice import ChoicePanel
from app.views.token.features import FeaturesPanel
from app.views.token.head import TokenHead
from app.views.token.lens import LensChart
from app.views.token.picture import LookedAtPicture
from app.views.token.section import Section, percent, place, shown
from app.views.token.time import TimePanel
from app.widgets.basics import TEXT_SIZE, divider, scrolled
from app.widgets.file_dialogs import open_file
from app.widgets.layouts import vbox
from app.widgets.lists.rows import ViewReport, texts_of
from app.widgets.numbers import UNKNOWN
from app.widgets.plots.paper import captioned
from app.widgets.tips import plain_tip

LONGEST = 100  # characters of the prompt


def captions(bench: Workbench, word: str) -> list[str]:
    """The word, the model that says it, the prompt's beginning, the seed."""
    session, lines = bench.session, [word]
    row = bench.chat.row_of(bench.token.word.message) if bench.token.word is not None else None
    path = bench.chat.path[: row + 1] if row is not None else []
    question = next((m.text for m in reversed(path) if m.role == "user"), "")
    prompt = " ".join(question.split())
    short = prompt if len(prompt) <= LONGEST else f"{prompt[: LONGEST - 1]}…"
    seed = path[-1].seed if path else None
    device = session.model.device_name if session.model is not None else ""
    lines.append(
        tr(
            "Model: {model_title}{value}",
            model_title=session.model_title or UNKNOWN,
            value=tr(", on {device}", device=device) if device else "",
        )
    )
    lines.append(tr("Prompt: {short}", short=short or UNKNOWN))
    lines.append(tr("Seed: {unknown}", unknown=UNKNOWN if seed is None else seed))
    return lines


def text_of(bench: Workbench, word: str, parts: Sequence[str]) -> str:
    """Captions and tables."""
    return "\n\n".join(["\n".join(captions(bench, word)), *parts]) + "\n"


LENSES = {
    "logit": tr("Logit lens"),
    "jacobian": tr("Jacobian lens"),
    "tuned": tr("Tuned lens"),
}
FILE = "…"


class LensPicker(QComboBox):
    """The logit lens, files that layers were read with, and the choice of another."""

    def __init__(self, state: TokenState, choose: Callable[[], object]) -> None:
        super().__init__()
        self._state, self._choose_file = state, choose
        self._listed: list[str] | None = None
        self.setAccessibleName(tr("Read layers with"))
        self.setSizeAdjustPolicy(self.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(14)
        self.activated.connect(self._pick)
        self.refresh()

    def refresh(self) -> None:
        """List the files, and show which is used."""
        used = self._state.questions_of_chat.lens_file
        files = list(dict.fromkeys([*([used] if used else []), *self._state.lenses]))
        if files != self._listed:
            self._listed = files
            self.clear()
            self.addItem(LENSES["logit"], "")
            for path in files:
                self.addItem(Path(path).name, path)
                self.setItemData(self.count() - 1, plain_tip(path), Qt.ItemDataRole.ToolTipRole)
            self.addItem(tr("Lens from a file…"), FILE)
        self.setCurrentIndex(max(0, self.findData(used)))

    def _pick(self, at: int) -> None:
        path = str(self.itemData(at))
        if path == FILE:
            self._choose_file()
            self._listed = None
        elif path != self._state.questions_of_chat.lens_file:
            self._state.use_lens(path)
        self.refresh()


WIDE = 660  # pixels from which on there are two columns


class TokenView(QWidget):
    """Shows `bench.token`, alive during an answer."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.token
        self.head = TokenHead(bench, self.copy_text, self.toggle_table)
        self.lens = LensChart()
        self.lens.pointed.connect(bench.selection.select_layer)
        self.lens.opened.connect(self._open_layer)
        self.attention = AttentionPanel(bench.token, bench.selection, bench.causes)
        self.attention.place_wanted.connect(bench.token.look_at)
        self.looked_at = LookedAtPicture(bench)
        self.attention.picture_wanted.connect(self._show_picture)
        self.choice, self.time = ChoicePanel(), TimePanel()
        self.features = FeaturesPanel(bench)
        self.picker = LensPicker(bench.token, self.choose_lens)
        self.choice.taken.connect(bench.token.branch)
        self.time.device_picked.connect(bench.selection.select_device)
        looks = QWidget()
        vbox(self.attention, self.looked_at, on=looks, spacing=6)
        self.sections = (
            Section(tr("Logit lens"), self.lens, self.lens_rows, 2, self.picker),
            Section(tr("Attention"), looks, self.attention.rows, 0),
            Section(tr("Choice"), self.choice, self.choice.rows),
            Section(tr("Time"), self.time, self.time.rows, 2),
            Section(tr("Features"), self.features, self.features.table.rows),
        )
        self.body = QWidget()
        self._grid = QGridLayout(self.body)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * PADDING)
        self._grid.setVerticalSpacing(PADDING)
        self._columns = 0
        self.area: QScrollArea = scrolled(self.body)
        vbox(self.head, divider(), (self.area, 1), on=self, margins=(PADDING, GRID, PADDING, GRID))
        bench.token.changed.connect(self.refresh)
        bench.splits.changed.connect(self._show_time)
        bench.selection.changed.connect(self._show_selected)
        bench.session.changed.connect(self.refresh)
        bench.runs.changed.connect(self._show_effects)
        bench.features.changed.connect(self._show_features)
        self.refresh()

    @property
    def as_table(self) -> bool:
        """Whether numbers alone are shown."""
        return self.sections[0].as_table

    def choose_lens(self) -> None:
        """Choose the file of a lens to read layers with."""
        path = open_file(self, tr("Read layers with a lens"), tr("Lenses (*.safetensors *.npz)"))
        if path:
            self._state.use_lens(path)

    def toggle_table(self) -> None:
        """Charts or tables; the same numbers."""
        as_table = not self.as_table
        self.head.show_table(as_table)
        for section in self.sections:
            section.show_table(as_table)

    def picture(self) -> QImage:
        """All of the drawing, with the model, the prompt's beginning and the seed."""
        return captioned(self.body, captions(self._bench, self.head.caption)).toImage()

    def copy_text(self) -> None:
        """The same as text, with all numbers."""
        parts = [section.text for section in self.sections]
        sources = "\n".join("\t".join(row) for row in self.attention.source_rows())
        parts.insert(2, tr("Sources\n{sources}", sources=sources))
        QGuiApplication.clipboard().setText(text_of(self._bench, self.head.caption, parts))

    def refresh(self) -> None:
        if not self.isVisible():
            return
        state, parts = self._state, self._state.parts
        self.head.refresh()
        inside = state.inside
        lens = inside.lens if inside is not None else None
        if lens is not self.lens.reading or lens is None:
            self.lens.show_reading(lens, parts.n_layer if parts is not None else 0)
            self.sections[0].set_title(LENSES[lens.kind if lens is not None else "logit"])
        self.attention.refresh()
        self.looked_at.refresh()
        waiting = tr("Select a token to see this.")
        choice = inside.choice if inside is not None else None
        recorded = state.recorded
        self.choice.show_choice(choice, recorded, waiting)
        self.picker.refresh()
        self._show_time()
        self._show_selected()
        self._bench.features.want()
        self.features.refresh()
        for section in self.sections:
            section.refresh()

    def _show_time(self) -> None:
        if self.isVisible():
            inside = self._state.inside
            step = inside.step if inside is not None else None
            times = self._bench.splits.latest if self._bench.chat.busy else None
            self.time.show_step(step, times, tr("measured when a token is inspected"))
            self.time.show_selected(self._bench.selection.now.device)

    def _show_effects(self) -> None:
        """Show the effects of a map that has ended."""
        if self.isVisible() and not self._bench.runs.running:
            self.attention.refresh()
            self.sections[1].refresh()

    def _show_features(self) -> None:
        if self.isVisible():
            self.features.refresh()
            self.sections[-1].refresh()

    def _show_selected(self) -> None:
        self.lens.show_selected(self._bench.selection.now.layer)
        self.time.show_selected(self._bench.selection.now.device)

    def _show_picture(self, number: int) -> None:
        """One of the pictures that were looked at, with its patches."""
        self.looked_at.choose(number)
        self.area.ensureWidgetVisible(self.looked_at)

    def _open_layer(self, layer: int) -> None:
        self._bench.selection.select_layer(layer)
        self._bench.selection.show_in("tensors")

    def lens_rows(self) -> list[list[str]]:
        """Of each layer its words and the rank of the one that came, titles on top."""
        rows = [[tr("Layer"), tr("Says"), "%", tr("Rank"), tr("Its %"), tr("Bits")]]
        reading = self.lens.reading
        for at in range(len(reading) if reading is not None else 0):
            assert reading is not None
            best = reading.guesses(at)[0]
            rows.append(
                [
                    self.lens.title_of(reading.layers[at]),
                    shown(best.text),
                    percent(best.probability),
                    place(int(reading.rank[at])),
                    percent(float(reading.probability[at])),
                    f"{float(reading.entropy[at]):.1f}",
                ]
            )
        return rows

    # Looks

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._state.shown(True)
        self._arrange()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._state.shown(False)
        self._bench.features.cancel()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._arrange()

    def _arrange(self) -> None:
        """The lens at the left of the others where there is room for two columns."""
        columns = 2 if self.width() - 2 * PADDING >= fonts.px(WIDE) else 1
        if columns == self._columns:
            return
        self._columns = columns
        lens, *others = self.sections
        for section in self.sections:
            self._grid.removeWidget(section)
        self._grid.addWidget(lens, 0, 0, len(others) if columns == 2 else 1, 1)
        for at, section in enumerate(others):
            self._grid.addWidget(section, at + 2 - columns, columns - 1)
        self._grid.setColumnStretch(0, 11)
        self._grid.setColumnStretch(1, 10 if columns == 2 else 0)
        for row in range(len(self.sections)):
            self._grid.setRowStretch(row, int(row == len(self.sections) - columns))


def token_report(bench: Workbench, view: TokenView) -> ViewReport:
    """Lens, attention, sources, choice and time as tables; the choice and the times as received."""
    inside = bench.token.inside
    tables = [section.report() for section in view.sections]
    tables.insert(2, texts_of(tr("Sources"), view.attention.source_rows()))
    fields = None if inside is None else {"choice": inside.choice, "step": inside.step}
    return ViewReport([view.head.caption], tables, lambda: msgspec.to_builtins(fields))
