"""The talk: messages of the open chat."""

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import CHAT_COLUMN, GRID, ROW
from app.views.talk.empty_talk import EmptyTalk
from app.views.talk.legend import Legend
from app.views.talk.message import MessageView
from app.views.talk.message_row import MessageRow
from app.widgets.basics import IconButton, surface
from app.widgets.layouts import vbox
from app.widgets.lists.scrolled import Row, ScrolledRows
from app.widgets.pictures.card import TILE
from app.widgets.pictures.loader import PictureLoader
from app.widgets.tokens.bands import Measure

TICK_MS = 250  # how often running times are shown anew
ABOVE_HIT = 96  # pixels shown above and below what was searched for
CHROME = 96  # pixels of a message beside its text
SAFE = ("http", "https")


class ChatView(QWidget):
    """Shows `bench.chat`; only messages near the viewport are widgets."""

    details_wanted = Signal(str)  # of a problem, by its text: the log
    pictures_wanted = Signal(object, int)  # a message's pictures, the place of the one to show
    files_given = Signal(list)  # as of the composer, while a message is edited
    picture_given = Signal(object)
    choose_wanted = Signal()
    document_wanted = Signal(object)
    vision_wanted = Signal()
    demo_wanted = Signal()

    def __init__(self, bench: Workbench, loader: PictureLoader) -> None:
        super().__init__()
        self.bench, self._loader = bench, loader
        self.measure: Measure = "probability"
        self._selected_token: tuple[int, int] | None = None
        self.setAccessibleName(tr("Talk"))
        surface(self, "canvas")
        self.column = ScrolledRows(self._make, self._estimate, fonts.chat_width())
        self.column.setAccessibleName(tr("Messages"))
        self.column.setParent(self)
        self.empty = EmptyTalk(bench, self.column)
        self.empty.demo_wanted.connect(self.demo_wanted)
        self.legend = Legend(self._set_measure, self.select_next_of)
        self.latest = IconButton("arrow-down", tr("Jump to the latest message"), self.column.follow)
        self.latest.setProperty("floating", "true")
        self.latest.setParent(self)
        self.latest.hide()
        self.column.following_changed.connect(self._show_latest)
        self.column.verticalScrollBar().rangeChanged.connect(self._show_latest)
        vbox(self.legend, (self.column, 1), on=self, spacing=0)
        self._made_anew = QTimer(self, singleShot=True, interval=0)
        self._made_anew.timeout.connect(lambda: self.show_path(0))
        self._ticks = QTimer(self, interval=TICK_MS)
        self._ticks.timeout.connect(self._tick)
        chat = bench.chat
        chat.path_changed.connect(self.show_path)
        chat.message_added.connect(self._message_added)
        chat.message_changed.connect(self.row_changed)
        chat.tokens_appended.connect(self._tokens_appended)
        chat.busy_changed.connect(self._busy_changed)
        chat.found.connect(self._show_found)
        bench.session.stage_changed.connect(self._tick)
        bench.session.changed.connect(self._refresh_empty)
        bench.preferences.changed.connect(self._preference_changed)
        bench.selection.changed.connect(self._show_selected)
        bench.token.lit_changed.connect(self._show_lights)
        self.show_path(0)
        self._show_legend()

    @property
    def paints_tokens(self) -> bool:
        """True if answers are shown as coloured tokens."""
        return bool(self.bench.preferences.value.probabilities_shown)

    # What a person does here

    def edit_last(self) -> None:
        """Edit the last question."""
        path = self.bench.chat.path
        rows = [row for row, message in enumerate(path) if message.role == "user"]
        if rows:
            self.view_of(rows[-1]).begin_edit()

    def copy_last(self) -> None:
        """Put the last answer on the clipboard."""
        for message in reversed(self.bench.chat.path):
            if message.role == "assistant" and message.text:
                QGuiApplication.clipboard().setText(message.text)
                return

    def regenerate_last(self) -> None:
        """Another answer to the last question."""
        if self.bench.chat.path:
            self.bench.chat.regenerate(len(self.bench.chat.path) - 1)

    def toggle_probabilities(self) -> None:
        """Paint answers by token, or show them as text again."""
        self.bench.preferences.update(probabilities_shown=not self.paints_tokens)

    def select_next_of(self, band: int) -> bool:
        """Select the next token of a band after the selected one, among the messages in view and
        near, round and round; False where there is none.
        """
        found = [
            (row, n)
            for row, view in sorted(self.column.live.items())
            if isinstance(view, MessageView) and view.tokens is not None
            for n, other in enumerate(view.tokens.bands)
            if other == band
        ]
        token = self.bench.selection.now.token
        row = self.bench.chat.row_of(token[0]) if token is not None else None
        now = (row, token[1]) if row is not None and token is not None else (-1, -1)
        place = next((place for place in found if place > now), found[0] if found else None)
        if place is not None:
            self.bench.selection.select_token(self.bench.chat.path[place[0]].id, place[1])
        return place is not None

    def choose_sibling(self, row: int, step: int) -> None:
        """Show another branch, and keep the keyboard on its arrows."""
        self.bench.chat.choose_sibling(row, step)
        view = self.column.widget(row)
        if isinstance(view, MessageView):
            button = view.buttons.after if step > 0 else view.buttons.before
            other = view.buttons.before if step > 0 else view.buttons.after
            (button if button.isEnabled() else other).setFocus()

    def branch(self, row: int, index: int, alternative: int) -> None:
        """Go on from another token."""
        if self.bench.chat.branch_from_token(row, index, alternative):
            self.column.follow()

    def open_link(self, address: str) -> None:
        """Hand an address to the system's browser."""
        url = QUrl(address)
        if url.scheme() in SAFE:
            QDesktopServices.openUrl(url)

    # What changes

    def row_changed(self, row: int) -> None:
        view = self.column.widget(row)
        if isinstance(view, MessageView):
            view.refresh()
        if self.bench.chat.answering is None:
            self.column.arrange()

    def show_path(self, first: int) -> None:
        if first == 0:
            self.column.set_rows(0, 0)
            self.column.follow()
        self.column.set_rows(first, len(self.bench.chat.path))
        self._refresh_above(first)
        self._refresh_empty()

    def _show_found(self, row: int | None, words: list[str]) -> None:
        """Go to the message that was searched for, and mark the words in it."""
        for view in self._views():
            view.mark([])
        if row is not None:
            view = self.view_of(row)
            self.column.stay()  # not at the end of a text that is laid out in turns to come
            at = view.mark(words)
            if at is not None:
                self._reveal_mark(view, at)

    def _reveal_mark(self, view: MessageView, at: int) -> None:
        self.column.reveal(view.y() + at - ABOVE_HIT)
        self.column.reveal(view.y() + at + ABOVE_HIT)
        self.column.stay()  # the rest of a long text may be laid out below it still

    def _views(self) -> list[MessageView]:
        return [view for view in self.column.live.values() if isinstance(view, MessageView)]

    def _message_added(self, row: int) -> None:
        if self.bench.chat.path[row].role == "user":
            self.column.follow()
        self.column.set_rows(row, row + 1)
        self._refresh_above(row)
        self._refresh_empty()

    def _refresh_above(self, row: int) -> None:
        """Refresh the message above, which has become the last one or has ceased to be it."""
        view = self.column.widget(row - 1)
        if isinstance(view, MessageView):
            view.refresh()

    def _tokens_appended(self, row: int, first: int) -> None:
        view = self.column.widget(row)
        if isinstance(view, MessageView):
            view.append_tokens(first)

    def _busy_changed(self, busy: bool) -> None:
        if busy:
            self._ticks.start()
        else:
            self._ticks.stop()
        for view in self._views():
            if view.row.is_last:
                view.refresh()
            else:
                view.refresh_actions()

    def _tick(self) -> None:
        row = self.bench.chat.answering
        view = self.column.widget(row) if row is not None else None
        if isinstance(view, MessageView):
            view.tick()

    def _preference_changed(self, field: str) -> None:
        if field == "probabilities_shown":
            self._show_legend()
            self._refresh_all()

    def _set_measure(self, measure: Measure) -> None:
        self.measure = measure
        for view in self.column.live.values():
            if isinstance(view, MessageView):
                view.row.measure = measure
        self._refresh_all()

    def _show_selected(self) -> None:
        """Mark the selected token, and bring it into view where another one is selected now."""
        token, before = self.bench.selection.now.token, self._selected_token
        self._selected_token = token
        row = self.bench.chat.row_of(token[0]) if token is not None else None
        if row is not None and token != before and self.column.widget(row) is None:
            self.column.show_row(row)
        for number, view in self.column.live.items():
            area = view.show_selected() if isinstance(view, MessageView) else None
            if number == row and token != before:
                area = area or QRect(0, 0, 1, 4 * GRID)
                self.column.reveal(view.y() + area.bottom())
                self.column.reveal(view.y() + area.top())

    def _show_lights(self) -> None:
        for row, view in self.column.live.items():
            if isinstance(view, MessageView) and row < len(self.bench.chat.path):  # else it goes
                view.show_lights()

    def _refresh_all(self) -> None:
        for view in self.column.live.values():
            if isinstance(view, MessageView):
                view.refresh()
        self.column.arrange()

    def _show_legend(self) -> None:
        self.legend.setVisible(self.paints_tokens)

    def _refresh_empty(self) -> None:
        self.empty.refresh()
        self.empty.setVisible(not self.bench.chat.path)

    def _show_latest(self) -> None:
        all_in_sight = not self.column.verticalScrollBar().maximum()
        self.latest.setVisible(not (self.column.following or all_in_sight))
        self.latest.raise_()
        self._place_latest()

    def _place_latest(self) -> None:
        size = self.latest.sizeHint()
        left = (self.width() - size.width()) // 2
        self.latest.move(left, self.height() - size.height() - GRID)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._place_latest()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self.column.widest != fonts.chat_width():
            self.column.widest = fonts.chat_width()  # the text has another size
            self.column.set_rows(0, 0)
            self._made_anew.start()

    # Rows

    def _make(self, row: int) -> Row:
        of_row = MessageRow(self.bench, row, self.measure, self)
        view = MessageView(of_row, self._loader)
        of_row.picture_wanted.connect(self.pictures_wanted)
        of_row.files_given.connect(self.files_given)
        of_row.picture_given.connect(self.picture_given)
        of_row.choose_wanted.connect(self.choose_wanted)
        of_row.document_wanted.connect(self.document_wanted)
        of_row.vision_wanted.connect(self.vision_wanted)
        view.mark_found.connect(lambda at: self._reveal_mark(view, at))
        view.reveal_wanted.connect(lambda y: self.column.reveal(y + view.y()))
        of_row.details_wanted.connect(self.details_wanted)
        of_row.link_wanted.connect(self.open_link)
        of_row.sibling_wanted.connect(lambda step: self.choose_sibling(row, step))
        of_row.branch_wanted.connect(lambda token, other: self.branch(row, token, other))
        of_row.rewritten.connect(lambda: self.row_changed(row))
        view.height_changed.connect(self.column.arrange, Qt.ConnectionType.DirectConnection)
        return view

    def view_of(self, row: int) -> MessageView:
        view = self.column.require(row)
        assert isinstance(view, MessageView)
        return view

    def _estimate(self, rows: range, width: int) -> list[int]:
        a_line = max(20, round(CHAT_COLUMN * width / max(1, fonts.chat_width())))
        least, line, tile = fonts.px(ROW) + CHROME, fonts.px(23), fonts.px(TILE)
        return [
            least
            + line * (1 + message.text.count("\n") + len(message.text) // a_line)
            + (tile if message.pictures else 0)
            for message in self.bench.chat.path[rows.start : rows.stop]
        ]
