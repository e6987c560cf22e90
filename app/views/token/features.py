"""Features of a word: a table of them, one of which is turned up, and the choice of an
autoencoder.
"""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDoubleSpinBox, QWidget

from app.language import tr
from app.state.lab.turning import turn_up
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import Button, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.file_dialogs import choose_folder
from app.widgets.layouts import SPARE, hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from engine.protocol import ActiveFeature, FeaturesFound

ROWS = 220  # pixels of the table
FURTHER = 2.0
"""A feature is turned up by this many times its activation, unless another strength is typed."""
NONE_YET = tr(
    "A sparse autoencoder of your model (Gemma Scope, SAELens) shows which features are active at"
    " the word."
)


class FeatureTable(QWidget):
    """Features of a word, one of which can be turned up in the next answer; with a title, or a
    filter in its place.
    """

    def __init__(self, bench: Workbench, titled: bool = True) -> None:
        super().__init__()
        self._bench = bench
        self._found: FeaturesFound | None = None
        self._chosen: ActiveFeature | None = None
        columns: list[Column[ActiveFeature]] = [
            Column(tr("Name"), self._name),
            Column(tr("Feature"), lambda one: str(one.index), lambda one: one.index, right=True),
            Column(
                tr("Activation"),
                lambda one: f"{one.activation:.2f}",
                lambda one: one.activation,
                right=True,
            ),
        ]
        self.table = Table(TableRows(columns, self), tr("Features"), stretch=(0,), short=titled)
        self.table.setMinimumHeight(fonts.px(ROWS))
        self.strength = QDoubleSpinBox()
        self.strength.setRange(-1e6, 1e6)
        self.strength.setAccessibleName(tr("Strength"))
        self.turn = Button(tr("Turn up in the next answer"), self._turn)
        self.turn.setEnabled(False)
        self.notice = label("", wrap=True)
        named = label(tr("Strength"), "quiet")
        named.setBuddy(self.strength)
        row = hbox(named, (self.strength, 1), spacing=GRID)
        vbox(self.table, row, (self.turn, Qt.AlignmentFlag.AlignLeft), self.notice, on=self)
        self.notice.hide()
        self.table.chosen.connect(self._choose)

    def show_features(self, found: FeaturesFound | None, features: Sequence[ActiveFeature]) -> None:
        """Show those of a word; the strongest is chosen."""
        self._found = found
        self.table.rows.show_rows(list(features))
        if features:
            self.table.view.selectRow(0)
        else:
            self._choose(None)

    def rows(self) -> list[list[str]]:
        """The table, titles on top."""
        titles = [tr("Name"), tr("Feature"), tr("Activation")]
        every = self.table.rows.all_rows
        return [
            titles,
            *([self._name(one), str(one.index), f"{one.activation:.2f}"] for one in every),
        ]

    def _name(self, one: ActiveFeature) -> str:
        return self._found.names.get(one.index, "") if self._found is not None else ""

    def _choose(self, one: ActiveFeature | None) -> None:
        self._chosen = one
        self.turn.setEnabled(one is not None)
        if one is not None:
            self.strength.setValue(FURTHER * one.activation)

    def _turn(self) -> None:
        found, one = self._found, self._chosen
        if found is None or one is None:
            return
        sae, feature = (found.sae, found.own_site), (one.index, self._name(one))
        strength = self.strength.value()
        turn_up(self._bench.chat.edits, sae, feature, strength, self._turned, self)

    def _turned(self, problem: str) -> None:
        added = tr("Added to the edits of the next answer. Compare it with a random control there.")
        self.notice.setText(problem or added)
        self.notice.show()


class FeaturesPanel(QWidget):
    """Shows `bench.features`, with the choice of an autoencoder."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state = bench.features
        self._shown: object = None
        self.name = ElidedLabel()
        self.choose = Button(tr("Choose an autoencoder…"), self.choose_folder, "link")
        self.none = Button(tr("None"), lambda: bench.features.use(""), "link")
        self.none.setAccessibleName(tr("Show no features"))
        self.caption = label(NONE_YET, "quiet", "small", wrap=True)
        self.table = FeatureTable(bench, titled=False)
        line = hbox((self.name, 1), self.none, self.choose, SPARE, spacing=GRID)
        vbox(line, self.caption, (self.table, 1), SPARE, on=self, spacing=GRID // 2)
        self.refresh()

    def choose_folder(self) -> None:
        """Choose the folder of an autoencoder."""
        folder = choose_folder(self, tr("Choose an autoencoder"), self._state.folder)
        if folder:
            self._state.use(folder)

    def refresh(self) -> None:
        """Show what is known of the word now."""
        state, found, features = self._state, self._state.found, self._state.features
        self.name.setText(state.title)
        self.name.setVisible(bool(state.folder))
        self.none.setVisible(bool(state.folder))
        self.choose.setText(tr("Choose…") if state.folder else tr("Choose an autoencoder…"))
        self.caption.setText(self._sentence(found))
        shown = found, tuple(features)
        if shown != self._shown:
            self._shown = shown
            self.table.show_features(found, features)
        self.table.setVisible(bool(features))

    def _sentence(self, found: FeaturesFound | None) -> str:
        state = self._state
        if not state.folder:
            return NONE_YET
        if state.problem:
            return state.problem
        if state.running:
            return tr("Computing the features…")
        if found is None:
            return tr("Select a token to see this.")
        facts = tr(
            "{l0:.1f} features are active at a word; explained variance {explained:.3f}.",
            l0=found.l0,
            explained=found.explained,
        )
        return " ".join([f"{found.site}.", facts, *found.notes])
