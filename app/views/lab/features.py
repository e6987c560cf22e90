"""Features of a text in the sheet of runs: the form, and the features of each word."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QListWidget, QSpinBox, QWidget

from app.language import tr
from app.state.lab.repeat import command_of_features
from app.state.lab.runs import text_of_run
from app.state.workbench import Workbench
from app.views.lab.fields import PathField, check_box, form_of
from app.views.lab.map import PROMPT
from app.views.token.features import FeatureTable
from app.views.token.section import shown
from app.widgets.basics import label, set_height
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from engine.protocol import FeaturesFound, FindFeatures

TOP, MOST_TOP = 10, 256
WORDS = 60  # pixels of the words


class FeaturesForm(QWidget):
    """An autoencoder, names of its features, and a text."""

    changed = Signal()
    title = tr("Features of a text")
    note = tr(
        "A sparse autoencoder of your model (Gemma Scope, SAELens) shows which features are active"
        " at each word. Choose a word, then a feature, and turn it up in the next answer."
    )

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.sae = PathField(tr("Autoencoder"), "folder")
        self.names = PathField(tr("Names of features"), "folder")
        self.names.field.setPlaceholderText(tr("the tokens that a feature promotes"))
        self.text = QLineEdit()
        self.site = QLineEdit()
        self.site.setPlaceholderText(tr("the one that the file names, or as residual-20"))
        self.top = QSpinBox()
        self.top.setRange(1, MOST_TOP)
        self.top.setValue(TOP)
        self.chat = check_box(tr("As chat messages"))
        vbox(
            form_of(
                (tr("Autoencoder"), self.sae),
                (tr("Names of features"), self.names),
                (tr("Text"), self.text),
                (tr("Result"), self.site),
                (tr("Features of a word"), self.top),
            ),
            self.chat,
            on=self,
        )
        for changed in (self.sae.changed, self.text.textChanged):
            changed.connect(self.changed)

    def refresh(self) -> None:
        """Begin with a text to try."""
        if not self.text.text():
            self.text.setText(PROMPT)

    @property
    def is_ready(self) -> bool:
        """True if it can be started."""
        return bool(self._bench.session.model is not None and self.sae.text and self.text.text())

    @property
    def request(self) -> FindFeatures:
        """The request that the form describes."""
        return FindFeatures(
            0,
            self.sae.text,
            text_of_run(self.text.text(), self.chat.isChecked()),
            self.top.value(),
            self.site.text().strip(),
            self.names.text,
        )

    @property
    def command(self) -> str:
        """The same in a terminal."""
        return command_of_features(self.request, str(self._bench.session.path or "MODEL"))

    @property
    def foreseen(self) -> str:
        """Cost of the run, or what is missing."""
        if self.is_ready:
            return tr("One pass over the text, and the weights of the autoencoder in memory.")
        return tr("Open a model, and choose the folder of an autoencoder.")


class FeaturesResult(QWidget):
    """Words in a row; the features of the chosen one as a table, which can be turned up."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._found: FeaturesFound | None = None
        self.title, self.caption = (
            label("", size="strong", wrap=True),
            label("", "quiet", wrap=True),
        )
        self.words = QListWidget()
        self.words.setAccessibleName(tr("Words"))
        self.words.setFlow(QListWidget.Flow.LeftToRight)
        self.words.setWrapping(True)
        self.words.setResizeMode(QListWidget.ResizeMode.Adjust)
        set_height(self.words, WORDS)
        self.features = FeatureTable(bench)
        vbox(self.title, self.caption, self.words, self.features, on=self)
        self.words.currentRowChanged.connect(self._show_word)

    def show_result(self, found: FeaturesFound) -> None:
        """Another text; its last word is chosen."""
        self._found = found
        self.title.setText(
            tr(
                "{name}: {n} features of {site}",
                name=found.name,
                n=grouped(found.n_features),
                site=found.site,
            )
        )
        facts = tr(
            "{l0:.1f} features are active at a word; explained variance {explained:.3f}.",
            l0=found.l0,
            explained=found.explained,
        )
        self.caption.setText(" ".join([facts, *found.notes]))
        self.features.notice.hide()
        self.words.clear()
        self.words.addItems([shown(text) for text in found.tokens])
        self.words.setCurrentRow(len(found.tokens) - 1)

    def _show_word(self, at: int) -> None:
        if self._found is not None and 0 <= at < len(self._found.features):
            self.features.show_features(self._found, self._found.features[at])
