"""The sheets that are shown over the window: models, terms, preferences, every command."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.documents.document import Document
from app.fetch.known import KNOWN, Terms
from app.state.talk.message import Picture
from app.state.workbench import Workbench
from app.theme.theme import undressed
from app.views.guide import GuideView
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
View = TypeVar("View", bound=QWidget)


def _made(
    width: int, height: int = 0
) -> Callable[[Callable[["Sheets"], View]], cached_property[View]]:
    """Return a decorator: from its first use on, a view is on a sheet of at most this size, which
    is dismissed when the view is done.
    """

    def make(build: Callable[["Sheets"], View]) -> cached_property[View]:
        def built(sheets: "Sheets") -> View:
            with undressed():
                view = build(sheets)
                sheet = sheets.of[view] = Sheet(sheets.over, view, width, height)
            cast(Any, view).done.connect(sheet.dismiss)
            return view

        return cached_property(built)

    return make


class Sheets(QObject):
    """One of each over `parent`, made when it is first used, from the state of that moment: what
    is hidden costs time at the start, at each resize and at each change of the text's size.
    """

    fetch_wanted = Signal(str)  # the name of a model to download
    picture_wanted = Signal()  # of the selected tensor of the model's file

    def __init__(
        self, bench: Workbench, commands: Actions[Any], loader: PictureLoader, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._bench, self._commands, self._loader = bench, commands, loader
        self.over = parent
        self.of: dict[QWidget, Sheet] = {}  # those that were made, by their views
        bench.downloads.terms_needed.connect(self._show_terms)
        bench.causes.wanted.connect(self.show_causes)

    @property
    def front(self) -> Sheet | None:
        """The open sheet, or the upper one of two."""
        above = reversed(self.over.children())  # in the order of raising
        return next((w for w in above if isinstance(w, Sheet) and w.isVisible()), None)

    @_made(*LARGEST)
    def chooser(self) -> Chooser:
        view = Chooser(self._bench)
        view.options.report_wanted.connect(self.show_report)
        view.wants_file.connect(lambda: self._commands.run("model.open_file"))
        view.wants_fetch.connect(self.fetch_wanted)
        return view

    @_made(480)
    def terms(self) -> TermsView:
        return TermsView(self._bench.downloads)

    @_made(1100, 760)
    def file(self) -> ModelView:
        view = ModelView(self._bench)
        view.tensors.picture_wanted.connect(self.picture_wanted)
        return view

    @_made(560, 720)
    def preferences(self) -> PreferencesView:
        return PreferencesView(self._bench.preferences, self._bench.tools)

    @_made(640, 560)
    def news(self) -> NewsView:
        return NewsView()

    @_made(980, 720)
    def guide(self) -> GuideView:
        return GuideView()

    @_made(760, 860)
    def serving(self) -> ServingView:
        return ServingView(self._bench)

    @_made(640, 560)
    def report(self) -> ReportView:
        return ReportView(self._bench)

    @_made(560, 440)
    def palette(self) -> Palette:
        return Palette(self._commands)

    @_made(720, 560)
    def prompt(self) -> PromptView:
        return PromptView(self._bench)

    @_made(820, 680)
    def document(self) -> DocumentView:
        return DocumentView(self._bench)

    @_made(*LARGEST)
    def viewer(self) -> PictureViewer:
        return PictureViewer(self._bench, self._loader)

    @_made(860, 680)
    def steer(self) -> SteerView:
        return SteerView(self._bench)

    @_made(1240, 860)
    def runs(self) -> RunsView:
        return RunsView(self._bench)

    @_made(560, 440)
    def take(self) -> TakeView:
        return TakeView(self._bench)

    @_made(1000, 680)
    def trial(self) -> TrialView:
        return TrialView(self._bench)

    @_made(1280, 860)
    def pair(self) -> PairView:
        return PairView(self._bench)

    def show_chooser(self) -> None:
        self.chooser.refresh()
        self._open(self.chooser)
        self.chooser.show_usual()

    def add_server(self) -> None:
        """Open the chooser with the form of a new server."""
        self.chooser.refresh()
        self._open(self.chooser)
        self.chooser.add_server()

    def show_file(self) -> None:
        """The file of the open model: metadata, tensors, tokenizer, difference to another."""
        self._open(self.file)

    def show_tensors(self, layer: int | None) -> None:
        """The tensors of a layer in the model's file, or all of them."""
        self.file.show_tensors(layer)
        self._open(self.file)
        self.file.tensors.table.view.setFocus()

    def show_preferences(self) -> None:
        self.preferences.refresh()
        self._open(self.preferences)

    def show_news(self) -> None:
        """The version of the program, and what is new in it."""
        self.news.refresh()
        self._open(self.news)

    def show_guide(self, topic: str) -> None:
        """The guide, at the section of that English title if there is one."""
        self.guide.show_topic(topic)
        self._open(self.guide)

    def show_serving(self) -> None:
        """The switch that has the open model answer other programs."""
        self._open(self.serving)

    def show_report(self) -> None:
        """The form for a report on the devices, or how far one is."""
        self.report.refresh()
        self._open(self.report)

    def show_palette(self) -> None:
        self.palette.refresh()
        self._open(self.palette)

    def show_prompt(self) -> None:
        self.prompt.refresh()
        self._open(self.prompt)

    def show_document(
        self, document: Document, place: int | None = None, at: int | None = None
    ) -> None:
        """A document's text; `place` is that among the attached ones, `at` a character of it."""
        self.document.show_document(document, place, at)
        self._open(self.document)

    def show_steering(self) -> None:
        """Make, open and use a steering vector."""
        self.steer.refresh()
        self._open(self.steer)

    def show_runs(self) -> None:
        """Maps, measurements and recordings: started, stopped, kept."""
        self.runs.refresh()
        self._open(self.runs)

    def show_causes(self) -> None:
        """The form of the map of a word."""
        self.show_runs()
        self.runs.show_word()

    def show_taking(self) -> None:
        """The answers from which the selection can be taken."""
        self.take.refresh()
        self._open(self.take)

    def show_trial(self) -> None:
        """The last answer with edits and without."""
        self.trial.refresh()
        self._open(self.trial)

    def show_pair(self) -> None:
        """The form for one question to two models, or to one with two settings."""
        self.pair.refresh()
        self._open(self.pair)

    def show_pictures(self, pictures: Sequence[Picture], place: int, seen: bool = False) -> None:
        """One of several, in full; with `seen` as the model sees it."""
        self.viewer.show_pictures(pictures, place, seen)
        self._open(self.viewer)

    def dismiss(self, kind: type[QWidget]) -> None:
        """Close the sheet whose view is of this class, if it is open."""
        for view, sheet in self.of.items():
            if isinstance(view, kind):
                sheet.dismiss()

    def _show_terms(self, name: str, terms: Terms) -> None:
        self.terms.show_terms(name, KNOWN.get(name), terms)
        self._open(self.terms)

    def _open(self, view: QWidget) -> None:
        self.of[view].open()
