"""The parts of a window that commands act on, and what takes several of them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.selection import BadLink
from app.state.talk.message import Picture
from app.state.workbench import Workbench
from app.views.graph.graph import GraphView
from app.views.memory.memory import Page
from app.views.talk.chats import ChatsView
from app.widgets.file_dialogs import save_file
from app.widgets.focus import focus_first
from app.widgets.plots.paper import grabbed
from app.window.given_pictures import GivenFiles, GivenPictures
from app.window.looks import Looks
from app.window.model_opener import ModelOpener
from app.window.panes.drawer import LogDrawer
from app.window.panes.inspector import Inspector
from app.window.panes.panes import Panes
from app.window.panes.talk_pane import TalkPane
from app.window.reporting import facts_of, write_report
from app.window.sheets import Sheets
from app.words import UNKNOWN
from app.work import Work

BETWEEN = " · "


def caption(bench: Workbench, title: str, selected: str, now: datetime) -> str:
    """Return the caption: view, model, devices, selection and time."""
    session, model = bench.session, bench.session.model
    where = model.device_name or model.device if model is not None else ""
    parts = (title, session.model_title or UNKNOWN, where, selected, f"{now:%Y-%m-%d %H:%M}")
    return BETWEEN.join(part for part in parts if part)


REPORT = tr("Report with a picture and data of the same name (*.md)")


class Desk(Protocol):
    """The parts of a window that commands act on."""

    bench: Workbench
    chats: ChatsView
    talk: TalkPane
    inspector: Inspector
    drawer: LogDrawer
    panes: Panes
    sheets: Sheets
    opener: ModelOpener
    vision: GivenPictures
    files: GivenFiles
    looks: Looks

    def close(self) -> bool: ...

    def as_widget(self) -> QWidget: ...


@runtime_checkable
class Tabled(Protocol):
    """A view whose numbers can be shown as a table."""

    @property
    def as_table(self) -> bool: ...

    def toggle_table(self) -> None: ...


@runtime_checkable
class Pictured(Protocol):
    """A view that makes its own picture, of more than the screen shows of it."""

    def picture(self) -> QImage: ...


def tabled(w: Desk) -> Tabled:
    """The inspector's page that is shown, or Memory where that has no table of its own."""
    shown = w.inspector.page(w.inspector.tab) if w.inspector.tab != Inspector.TALK else None
    return shown if isinstance(shown, Tabled) else w.inspector.memory


def new_chat(w: Desk) -> None:
    """Go to an empty chat, with the keyboard in the composer."""
    w.bench.chat.open(None)
    w.panes.show_tab(Inspector.TALK)
    focus_first(w.talk.composer)


def search_chats(w: Desk) -> None:
    """Go to the field above the chats."""
    w.panes.show_chats()
    w.chats.search.setFocus()
    w.chats.search.selectAll()


def rename_chat(w: Desk) -> None:
    """Edit the open chat's title in the list, which is shown for it."""
    w.panes.show_chats()
    w.chats.rename_current()


def undo_delete(w: Desk) -> None:
    """Bring back what was deleted last: what a banner offers, or else a chat."""
    if not w.talk.notices.undo():
        w.bench.undo_delete_chat()


def shown_pictures(w: Desk) -> Sequence[Picture]:
    """Return the pictures of the draft, or else those of the last message that has any."""
    attached = w.bench.chat.attached.pictures
    sent = (message.pictures for message in reversed(w.bench.chat.path) if message.pictures)
    return attached or next(sent, ())


def follow_link(w: Desk) -> None:
    """Select what the link on the clipboard names; show a notice where that fails."""
    w.talk.notices.drop("link")
    try:
        w.bench.follow(QGuiApplication.clipboard().text())
    except BadLink as error:
        w.talk.notices.news("link", str(error), "warn")


def put_in_window(w: Desk) -> None:
    """Give the view that is looked at a window of its own, or bring it back from there."""
    front = w.inspector.front
    if front in w.inspector.windows and w.inspector.windows[front].isActiveWindow():
        w.inspector.show_again(front)
    else:
        w.inspector.put_in_window(front, w.as_widget())


def picture_in_front(w: Desk) -> QImage:
    """Return a picture of the front view, with a caption."""
    title = w.inspector.title(w.inspector.front)
    words = caption(w.bench, title, w.inspector.selection.text, datetime.now())
    view = w.inspector.page(w.inspector.front)
    return view.picture() if isinstance(view, Pictured) else grabbed(view, words)


def copy_picture(w: Desk) -> None:
    """Put a picture of the view that is looked at on the clipboard, and say so."""
    title, picture = w.inspector.title(w.inspector.front), picture_in_front(w)
    QGuiApplication.clipboard().setImage(picture)
    size = f"{picture.width()} × {picture.height()}"
    w.talk.notices.news(
        "picture", tr("Copied a picture of {title}, {size} pixels.", title=title, size=size), "good"
    )


def save_report(w: Desk) -> None:
    """Request a name, then save what the view that is looked at shows; say what came of it."""
    front, notices = w.inspector.front, w.talk.notices
    title = w.inspector.title(front)
    name = f"{w.bench.session.model_name or 'cutaway'}-{front}.md"
    chosen, _ = save_file(w.as_widget(), tr("Save a report"), name, REPORT)
    if not chosen:
        return

    def saved(paths: list[Path]) -> None:
        names = ", ".join(path.name for path in paths)
        notices.news(
            "report", tr("Saved {names} in {parent}.", names=names, parent=paths[0].parent), "good"
        )

    def failed(problem: str) -> None:
        notices.news("report", problem, "bad")

    facts = facts_of(w.bench, title, w.inspector.selection.text, datetime.now())
    job = Work(write_report, Path(chosen), facts, w.inspector.report(front), picture_in_front(w))
    job.then(saved).fail(failed).start(w.talk)


def compare_with_host(w: Desk) -> None:
    """Compare the open model's results with the host's, and show the graph by their errors."""
    w.panes.show_tab("graph")
    w.inspector.view(GraphView).bar.choose_overlay("error")
    w.bench.comparison.start()


def record_answer(w: Desk) -> None:
    """Record the next answer, or no longer, and show the page where it will be."""
    w.bench.profile.record(not w.bench.profile.recording)
    w.panes.show_tab("profile")


def memory_page(page: Page) -> Callable[[Desk], None]:
    """Show a page of the memory view; the layers, if that page is shown already."""

    def show(w: Desk) -> None:
        w.inspector.memory.toggle_page(page)
        w.panes.show_tab("memory")

    return show
