"""The sheets that lie over the window: models, terms, preferences, every command."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.documents.document import Document
from app.fetch.known import KNOWN, Terms
from app.state.talk.message import Picture
from app.state.workbench import Workbench
from app.views.lab.runs import RunsView
from app.views.lab.steer import SteerView
from app.views.lab.take import TakeView
from app.views.models.chooser import Chooser
from app.views.models.chooser_fetch import TermsView
from app.views.models.model import ModelView
from app.views.models.serving import ServingView
from app.views.news import NewsView
from app.views.pair import PairView
from app.views.preferences import PreferencesView
from app.views.report_sheet import ReportView
from app.views.talk.documents import DocumentView
from app.views.talk.pictures.viewer import PictureViewer
from app.views.talk.prompt import PromptView
from app.views.trial import TrialView
from app.widgets.commands import Actions
from app.widgets.overlays import Sheet
from app.widgets.pictures.loader import PictureLoader
from app.window.palette import Palette

LARGEST = 4000, 4000  # as much as the window has room for


class Sheets(QObject):
    """Made over `parent`, one of each; opened with what is there then."""

    def __init__(
        self, bench: Workbench, commands: Actions[Any], loader: PictureLoader, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.chooser = Chooser(bench)
        self.terms = TermsView(bench.downloads)
        self.preferences = PreferencesView(bench.preferences, bench.tools)
        self.report = ReportView(bench)
        self.palette = Palette(commands)
        self.prompt = PromptView(bench)
        self.file = ModelView(bench)
        self._file = Sheet(parent, self.file, 1100, 760)
        self.file.done.connect(self._file.dismiss)
        self.viewer = PictureViewer(bench, loader)
        self._viewer = Sheet(parent, self.viewer, *LARGEST)
        self.viewer.done.connect(self._viewer.dismiss)
        self._viewer.closed.connect(self.viewer.forget)
        self.trial = TrialView(bench)
        self._trial = _sheet(parent, self.trial, 1000, 680)
        self.steer, self.take = SteerView(bench), TakeView(bench)
        self._steer = _sheet(parent, self.steer, 860, 680)
        self.runs = RunsView(bench)
        bench.causes.wanted.connect(self.show_causes)
        self._runs = _sheet(parent, self.runs, 860, 800)
        self._take = Sheet(parent, self.take, 560, 440)
        self.take.done.connect(self._take.dismiss)
        self.pair = PairView(bench)
        self._pair = _sheet(parent, self.pair, 1280, 860)
        self._prompt = Sheet(parent, self.prompt, 720, 560)
        self.prompt.done.connect(self._prompt.dismiss)
        self.document = DocumentView(bench)
        self._document = Sheet(parent, self.document, 820, 680)
        self.document.done.connect(self._document.dismiss)
        self._chooser = Sheet(parent, self.chooser, *LARGEST)
        self._terms = Sheet(parent, self.terms, 480)
        self._preferences = Sheet(parent, self.preferences, 560, 720)
        self.news = NewsView()
        self._news = Sheet(parent, self.news, 640, 560)
        self.news.done.connect(self._news.dismiss)
        self.serving = ServingView(bench)
        self._serving = _sheet(parent, self.serving, 760, 680)
        self._report = _sheet(parent, self.report, 640, 560)
        self._palette = Sheet(parent, self.palette, 560, 440)
        self.chooser.done.connect(self._chooser.dismiss)
        self.terms.done.connect(self._terms.dismiss)
        self.preferences.done.connect(self._preferences.dismiss)
        self.palette.done.connect(self._palette.dismiss)
        self.chooser.options.report_wanted.connect(self.show_report)
        self.chooser.wants_file.connect(lambda: commands.run("model.open_file"))
        bench.downloads.terms_needed.connect(self._ask_terms)

    @property
    def front(self) -> Sheet | None:
        """The open sheet, or the upper one of two."""
        sheets = (
            self._viewer,
            self._terms,
            self._palette,
            self._prompt,
            self._document,
            self._trial,
            self._steer,
            self._take,
            self._pair,
            self._runs,
            self._preferences,
            self._news,
            self._report,
            self._serving,
            self._chooser,
            self._file,
        )
        return next((sheet for sheet in sheets if sheet.isVisible()), None)

    def show_chooser(self) -> None:
        self.chooser.refresh()
        self._chooser.open()

    def add_server(self) -> None:
        """The chooser with the form of a new server."""
        self.show_chooser()
        self.chooser.add_server()

    def show_file(self) -> None:
        """The file of the open model: metadata, tensors, tokenizer, difference to another."""
        self._file.open()

    def show_tensors(self, layer: int | None) -> None:
        """The tensors of a layer in the model's file, or all of them."""
        self.file.show_tensors(layer)
        self._file.open()
        self.file.tensors.table.view.setFocus()

    def dismiss_file(self) -> None:
        self._file.dismiss()

    def show_preferences(self) -> None:
        self.preferences.refresh()
        self._preferences.open()

    def show_news(self) -> None:
        """The version of the program, and what is new in it."""
        self.news.refresh()
        self._news.open()

    def show_serving(self) -> None:
        """The switch that has the open model answer other programs."""
        self._serving.open()

    def show_report(self) -> None:
        """The form for a report on the devices, or how far one is."""
        self.report.refresh()
        self._report.open()

    def show_palette(self) -> None:
        self.palette.refresh()
        self._palette.open()

    def show_prompt(self) -> None:
        self.prompt.refresh()
        self._prompt.open()

    def show_document(
        self, document: Document, place: int | None = None, at: int | None = None
    ) -> None:
        """A document's text; `place` is that among the attached ones, `at` a character of it."""
        self.document.show_document(document, place, at)
        self._document.open()

    def show_steering(self) -> None:
        """Make, open and use a steering vector."""
        self.steer.refresh()
        self._steer.open()

    def show_runs(self) -> None:
        """Maps, measurements and recordings: started, stopped, kept."""
        self.runs.refresh()
        self._runs.open()

    def show_causes(self) -> None:
        """The form of the map of a word."""
        self.show_runs()
        self.runs.show_word()

    def show_taking(self) -> None:
        """The answers from which the selection can be taken."""
        self.take.refresh()
        self._take.open()

    def show_trial(self) -> None:
        """The last answer with edits and without."""
        self.trial.refresh()
        self._trial.open()

    def show_pair(self) -> None:
        """The form that asks two models, or one with two settings, the same."""
        self.pair.refresh()
        self._pair.open()

    def show_pictures(self, pictures: Sequence[Picture], place: int, seen: bool = False) -> None:
        """One of several, in full; with `seen` as the model sees it."""
        self.viewer.show_pictures(pictures, place, seen)
        self._viewer.open()

    def dismiss_chooser(self) -> None:
        self._chooser.dismiss()

    def _ask_terms(self, name: str, terms: Terms) -> None:
        self.terms.ask(name, KNOWN.get(name), terms)
        self._terms.open()


def _sheet(
    parent: QWidget,
    content: PairView | TrialView | ServingView | ReportView | RunsView | SteerView,
    *size: int,
) -> Sheet:
    """A sheet that is dismissed when its content is done."""
    made = Sheet(parent, content, *size)
    content.done.connect(made.dismiss)
    return made
