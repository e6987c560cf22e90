"""Discover: search the Hugging Face Hub, see which models fit, and download one."""

import re
from typing import Any

from PySide6.QtCore import QEvent, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QCheckBox, QComboBox, QLineEdit, QWidget

from app.fetch.known import KNOWN, KnownModel
from app.fetch.search import ENDPOINT
from app.language import tr
from app.state.models.discover import Discover, FoundQuant, FoundRepo, SearchQuery, ShelfRow
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING, ROW
from app.views.models.chooser_fetch import DownloadBar, FetchView, wrapped
from app.widgets.basics import TEXT_SIZE, Button, divider, scrolled, set_beside, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.flow import Flow
from app.widgets.layouts import SPARE, STRETCH, hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import UNKNOWN, file_size, grouped
from app.widgets.tips import set_tip
from engine.units import GB

BESIDE = 680  # pixels at normal text; in less, the repository stands below the results
LEAST_ROWS = 6
MOST_PLANNED = 12  # rows in view
SOON_MS = 250  # after the cursor has moved, before a repository is requested
FULL_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.-]+))?")  # org/repo or org/repo:quant
CHOOSE = tr("Choose a model to see its files, their sizes and which of them fit.")
NONE_FITS = tr("None of these fits. Choose one to see by how much, or search for a smaller model.")
NONE_KNOWN = tr("Choose a file to see whether it fits.")
FILTERS: dict[str, tuple[tuple[str, Any], ...]] = {
    tr("Task"): ((tr("Any task"), "any"), (tr("Chat"), "chat"), (tr("Pictures"), "images")),
    tr("Size"): (
        (tr("Any size"), None),
        *((tr("Up to {n}B", n=n), n * 10**9) for n in (1, 4, 8, 16, 32)),
    ),
    tr("Licence"): (
        (tr("Any licence"), None),
        *((name, name) for name in ("apache-2.0", "mit", "gemma", "llama3.1", "llama3.2")),
    ),
    tr("Sort"): (
        (tr("Trending"), "trending"),
        (tr("Downloads"), "downloads"),
        (tr("Likes"), "likes"),
        (tr("Latest"), "recent"),
    ),
}
TONES = {"fits": "good", "fits_smaller": "warn", "too_big": "bad"}


def _parameters(count: float | None) -> str:
    if count is None:
        return UNKNOWN
    return (
        tr("{count:.1f}B", count=count / 1000000000.0)
        if count >= 1e9
        else tr("{count:.0f}M", count=count / 1000000.0)
    )


def _first_fits(row: ShelfRow) -> str:
    return {True: tr("likely fits"), False: tr("likely too large"), None: UNKNOWN}[row.fits]


def verdict(row: FoundQuant) -> tuple[str, str]:
    """Tone and sentence: whether this model fits, or why that is not known."""
    if not row.supported:
        return "quiet", row.reason
    if row.problem:
        return "bad", row.problem
    if row.plan is None:
        return "quiet", tr("Reading its header …")
    return TONES[row.plan.verdict], row.plan.text[:1].upper() + row.plan.text[1:]


def in_short(row: FoundQuant) -> str:
    """The same in the few words that a column of the table has room for."""
    plan = row.plan
    if plan is None or row.problem or not row.supported:
        return tr("Cannot be planned") if row.problem else verdict(row)[1]
    if plan.verdict == "too_big":
        return tr("{wanted:.1f} GB too large", wanted=max(plan.wanted - plan.limit, 0) / GB)
    context = (
        "" if plan.verdict == "fits" else tr(" with {n_ctx} tokens", n_ctx=grouped(plan.n_ctx))
    )
    speed = (
        tr(" · {tokens_per_s:.0f} tokens/s", tokens_per_s=plan.tokens_per_s)
        if plan.tokens_per_s
        else ""
    )
    return tr("Fits{context}{speed}", context=context, speed=speed)


SHELF_COLUMNS = (
    Column[ShelfRow](tr("Model"), lambda r: r.model.title, whole=True),
    Column[ShelfRow](
        tr("Size"), lambda r: file_size(r.model.size), lambda r: r.model.size, right=True
    ),
    Column[ShelfRow](
        tr("This machine"), _first_fits, tone=lambda r: "good" if r.fits else "quiet", whole=True
    ),
    Column[ShelfRow](tr("Why"), lambda r: tr(r.model.reason), quiet=True),
)
RESULT_COLUMNS = (
    Column[FoundRepo](tr("Repository"), lambda r: r.repo),
    Column[FoundRepo](
        tr("Params"), lambda r: _parameters(r.parameters), lambda r: r.parameters or 0, right=True
    ),
    Column[FoundRepo](tr("Licence"), lambda r: r.licence or UNKNOWN, quiet=True),
    Column[FoundRepo](tr("Downloads"), lambda r: grouped(r.downloads), lambda r: r.downloads, True),
    Column[FoundRepo](tr("Updated"), lambda r: r.modified[:10] or UNKNOWN, quiet=True, whole=True),
)
QUANT_COLUMNS = (
    Column[FoundQuant](
        tr("Quant"), lambda r: r.label, whole=True, tone=lambda r: "" if r.supported else "quiet"
    ),
    Column[FoundQuant](tr("Size"), lambda r: file_size(r.size), lambda r: r.size, right=True),
    Column[FoundQuant](tr("On this machine"), in_short, tone=lambda r: verdict(r)[0]),
)


class DiscoverView(QWidget):
    """Shows `bench.discover`: the shelf or the results with `downloads` below, and the repository
    that is open.
    """

    opening = Signal()  # a downloaded model is opened

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.state = bench.discover
        self._label = ""  # the quant that the shelf recommends
        self.wanted = ""  # the repository under the cursor
        self._reason = ""  # why it is on the shelf
        self.downloads = FetchView(bench)
        self.words = QLineEdit()
        self.words.setPlaceholderText(tr("Search Hugging Face: words, or org/repo"))
        self.words.setAccessibleName(tr("Search Hugging Face"))
        self.words.setClearButtonEnabled(True)
        self.words.returnPressed.connect(self.search)
        self.words.textChanged.connect(self._on_words)
        self.filters = {name: _combo(name, choices) for name, choices in FILTERS.items()}
        for box in self.filters.values():
            box.activated.connect(self.search)
        self.notice = wrapped()
        self.again = Button(tr("Try again"), self.search, "link", name=tr("Search again"))
        self.more = Button(tr("More results"), self.state.more, "link")
        self.shelf = Table(
            TableRows(SHELF_COLUMNS, self), tr("Recommended models"), stretch=(3,), short=True
        )
        self.results = Table(
            TableRows(RESULT_COLUMNS, self), tr("Found repositories"), stretch=(0,)
        )
        self.repo = RepoView(bench)
        for part in (self.repo, self.downloads):
            part.opening.connect(self.opening)
        self._soon = QTimer(self, singleShot=True, interval=SOON_MS)
        self._soon.timeout.connect(self._open)
        self.shelf.picked.connect(self._pick_shelf)
        self.results.picked.connect(lambda row: self._want(row.repo))
        for table in (self.shelf, self.results):
            table.activated.connect(self._go_to_repo)
        self._lay_out()
        self.setFocusProxy(self.words)
        self.state.changed.connect(self.refresh)
        self.refresh()

    def _lay_out(self) -> None:
        search = hbox((self.words, 1), Button(tr("Search"), self.search, "primary"), spacing=GRID)
        filters = Flow(tr("Filters"))
        filters.show_items([*self.filters.values()])
        found = QWidget()
        left = vbox(
            search,
            filters,
            self.notice,
            (self.again, Qt.AlignmentFlag.AlignLeft),
            on=found,
            margins=PADDING,
        )
        for table in (self.shelf, self.results):
            left.addWidget(table, 1)
        left.addWidget(self.more)
        left.addWidget(self.downloads)
        left.addStretch(0)  # where no table takes the room
        body = QWidget()
        self._halves = QBoxLayout(QBoxLayout.Direction.LeftToRight, body)
        self._halves.setContentsMargins(0, 0, 0, 0)
        self._halves.setSpacing(0)
        self._halves.addWidget(found, 50)
        self._line = divider(vertical=True)
        self._halves.addWidget(self._line)
        self._halves.addWidget(self.repo, 50)
        self.area = scrolled(body)
        vbox(self.area, on=self, spacing=6)
        self._fit_tables()

    def search(self) -> None:
        """Search with the words and filters; without words, list all that pass the filters. A full
        name also opens its repository, which a search may not list.
        """
        words, quant = self.words.text().strip(), ""
        full = FULL_NAME.fullmatch(words)
        if full is not None:
            words, quant = full[1], full[2] or ""
            self._want(words, quant)
            self._soon.stop()
            self._open()
        values = {name: box.currentData() for name, box in self.filters.items()}
        self.state.search(
            SearchQuery(
                words,
                values[tr("Task")],
                values[tr("Size")],
                values[tr("Licence")],
                values[tr("Sort")],
            )
        )

    def refresh(self) -> None:
        """Show the state as it is."""
        state = self.state
        shelf = state.state == "idle" and not state.results
        _replace(self.shelf, state.shelf)
        _replace(self.results, state.results)
        self.shelf.setVisible(shelf)
        self.results.setVisible(bool(state.results))
        self.notice.setText(_notice(state))
        self.notice.setVisible(bool(self.notice.text()))
        wrong = state.state in ("offline", "failed")
        set_tone(self.notice, "bad" if wrong else "quiet")
        self.again.setVisible(wrong)
        self.more.setVisible(state.has_more)
        for widget in (self._line, self.repo):
            widget.setVisible(bool(self.wanted) or not shelf)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._fit_tables()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        set_beside(self._halves, self.width() >= fonts.px(BESIDE))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self.state.look_at_machine()

    def _on_words(self, text: str) -> None:
        if not text:  # the shelf comes back
            self.state.results = []
            self.state.state = "idle"
            self.state.cancel()

    def _pick_shelf(self, row: ShelfRow) -> None:
        name, _, quant = row.model.name.partition(":")
        self._want(name, quant, tr(row.model.reason))

    def _want(self, repo: str, quant: str = "", reason: str = "") -> None:
        """Open a repository soon, unless it is open."""
        if (repo, quant) != (self.wanted, self._label):
            self.wanted, self._label, self._reason = repo, quant, reason
            self.refresh()
            self._soon.start()

    def _open(self) -> None:
        self.repo.open(self.wanted, self._label, self._reason)

    def _go_to_repo(self, row: ShelfRow | FoundRepo) -> None:
        """Open it and move the keyboard to its files; they may be out of sight below."""
        self._pick_shelf(row) if isinstance(row, ShelfRow) else self._want(row.repo)
        if self._soon.isActive():
            self._soon.stop()
            self._open()
        self.area.ensureWidgetVisible(self.repo.table)
        self.area.ensureWidgetVisible(self.repo.title)
        self.repo.take_keyboard()

    def _fit_tables(self) -> None:
        for table in (self.shelf, self.results, self.repo.table):
            table.setMinimumHeight(fonts.px((LEAST_ROWS + 2) * ROW))


class RepoView(QWidget):
    """The open repository: its models, whether each fits, and the download of the chosen one."""

    opening = Signal()
    known_wanted = Signal(str)  # the download of a known model

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench, self.state = bench, bench.discover
        self._key, self._recommended, self._reason = "", "", ""
        self._known: KnownModel | None = None
        self._wants_keyboard = False  # when its files are listed
        self.title = ElidedLabel(size="strong")
        self.facts = wrapped()
        self.problem = wrapped()
        self.page = Button(tr("Open the page"), self._open_page)
        self.again = Button(tr("Try again"), self._again, name=tr("List the files again"))
        self.table = Table(
            TableRows(QUANT_COLUMNS, self), tr("Files of the repository"), stretch=(2,), short=True
        )
        self.verdict = wrapped()
        self.parts = wrapped()
        self.images = QCheckBox(tr("With its image encoder"))
        self.images.setAccessibleName(tr("Download its image encoder too"))
        self.images.setChecked(True)
        self.download = DownloadBar(bench, self._start)
        self.download.opening.connect(self.opening)
        buttons = hbox(self.page, self.again, STRETCH, spacing=GRID)
        vbox(
            self.title,
            self.facts,
            self.verdict,
            self.parts,
            self.images,
            self.download,
            self.problem,
            buttons,
            (self.table, 1),
            SPARE,
            on=self,
            margins=PADDING,
        )
        self.table.chosen.connect(self._choose)
        self.table.picked.connect(self._pick)
        self.table.activated.connect(lambda row: self.download.take())
        self.table.view.verticalScrollBar().valueChanged.connect(self._plan_visible)
        self.state.changed.connect(self.refresh)
        self.state.row_changed.connect(lambda key: self.refresh())
        self.refresh()

    def open(self, repo: str, quant: str = "", reason: str = "") -> None:
        """List a repository's models; `quant` is chosen where there is one of that name. `reason`
        is why it is recommended. A known model that is in no repository is shown without a list.
        """
        self._key, self._recommended, self._reason = "", quant, reason
        self._wants_keyboard = False
        self._known = KNOWN.get(repo)
        if self._known is None:
            self.state.open_repo(repo)
        else:
            self.state.close_repo()

    def take_keyboard(self) -> None:
        """Move the keyboard to the files, once they are listed."""
        self._wants_keyboard = not self.state.rows and self._known is None
        if self._known is not None:
            self.download.get.setFocus()
        elif self.state.rows:
            self.table.view.setFocus()

    def refresh(self) -> None:
        """Show the repository as it is."""
        if self._known is not None:
            self._show_known(self._known)
            return
        state, repo = self.state, self.state.repo
        self.title.setText(repo.repo if repo is not None else "")
        self.title.setVisible(repo is not None)
        facts = _facts(repo, state.repo_state == "done") if repo is not None else CHOOSE
        self.facts.setText("\n".join(part for part in (self._reason, facts) if part))
        busy = state.repo_state == "searching"
        problem = tr("Listing its files …") if busy else state.repo_problem
        if state.gated_page:
            problem = tr(
                "{sentence} Accept the terms on its page, then try again.",
                sentence=_sentence(problem),
            )
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        set_tone(self.problem, "quiet" if busy else "bad")
        self.page.setVisible(bool(self.page_address()))
        self.again.setVisible(bool(state.repo_problem) and not busy)
        self.table.setVisible(bool(state.rows))
        _replace(self.table, state.rows)
        shown = list(self.table.rows.shown)
        wanted = self._key or self._label_key() or state.selected
        at = next((i for i, row in enumerate(shown) if row.key == wanted), None)
        if at is not None:
            self.table.choose(at)
        self._choose(shown[at] if at is not None else None)
        if self._wants_keyboard and state.rows:
            self.take_keyboard()
        QTimer.singleShot(0, self, self._plan_visible)

    def _show_known(self, model: KnownModel) -> None:
        """Show a model of one file, which is offered at once."""
        self.title.setText(model.name)
        licence = tr("Licence: {licence}", licence=model.licence)
        size = tr("{size} to download. ", size=file_size(model.download_size)).strip()
        self.facts.setText("\n".join((self._reason, licence, size)))
        for part in (self.verdict, self.parts, self.images, self.problem, self.page, self.again):
            part.hide()
        self.table.hide()
        self.title.show()
        self.download.show()
        self.download.show_model(model.name, True)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._plan_visible)

    def _label_key(self) -> str:
        rows = self.state.rows
        return next((r.key for r in rows if r.supported and r.label == self._recommended), "")

    def _pick(self, row: FoundQuant) -> None:
        self._key = row.key
        self._choose(row)

    def _choose(self, row: FoundQuant | None) -> None:
        """Say what there is to know of one model."""
        for widget in (self.verdict, self.parts, self.download):
            widget.setVisible(row is not None)
        self.images.setVisible(row is not None and row.projector is not None)
        if row is None:
            too_big = all(_too_big(other) for other in self.state.rows if other.supported)
            self.verdict.setVisible(bool(self.state.rows))
            self.verdict.setText(NONE_FITS if too_big else NONE_KNOWN)
            set_tone(self.verdict, "warn" if too_big else "quiet")
            return
        tone, text = verdict(row)
        if _too_big(row):
            better = next((r for r in reversed(self.state.rows) if _fits(r)), None)
            text += tr("; {label} does fit.", label=better.label) if better is not None else "."
        self.verdict.setText(text)
        set_tip(self.verdict, text)
        set_tone(self.verdict, tone)
        several = tr(" in {n_parts} parts", n_parts=row.n_parts) if row.n_parts > 1 else ""
        self.parts.setText(
            tr(
                "{label} · {size}{several} · kept in the cache of Hugging Face",
                label=row.label,
                size=file_size(row.size),
                several=several,
            )
        )
        if row.projector is not None:
            size = file_size(row.projector.size)
            self.images.setText(tr("With its image encoder, {size}", size=size))
            set_tip(self.images, row.projector.path)
        self.download.show_model(row.name, row.supported)

    def _start(self, name: str) -> None:
        if self._known is not None:
            self.known_wanted.emit(name)
            return
        text_only = not self.images.isHidden() and not self.images.isChecked()
        self._bench.downloads.start(name, text_only=text_only)

    def _plan_visible(self) -> None:
        """Plan the chosen row, then those in view."""
        view, shown = self.table.view, self.table.rows.shown
        if not shown or not view.isVisible():
            return
        if self.state.selected is not None:
            self.state.plan(self.state.selected)
        first, last = view.rowAt(0), view.rowAt(view.viewport().height() - 1)
        seen = list(shown)[max(first, 0) : last + 1 if last >= 0 else None]
        for row in seen[:MOST_PLANNED]:
            self.state.plan(row.key)

    def page_address(self) -> str:
        """Where the terms of a gated repository can be accepted; empty where it has none."""
        repo = self.state.repo
        if self.state.gated_page or repo is None or not repo.gated:
            return self.state.gated_page
        return f"{ENDPOINT.get()}/{repo.repo}"

    def _open_page(self) -> None:
        url = QUrl(self.page_address())
        if url.scheme() in ("http", "https"):
            QDesktopServices.openUrl(url)

    def _again(self) -> None:
        if self.state.repo is not None:
            self.state.open_repo(self.state.repo.repo)


def _notice(state: Discover) -> str:
    """Where the search stands, and the next step."""
    if state.state == "idle":
        return ""
    if state.state == "searching":
        if state.waiting_s is not None:
            wait = f"{state.waiting_s:.0f} s"
            return tr(
                "Hugging Face limits the rate of requests. The search continues in {wait}.",
                wait=wait,
            )
        return tr("Searching …")
    if state.state == "offline":  # it says that models on this disk can be used
        return _sentence(state.problem)
    if state.state == "failed":
        return tr(
            "{sentence} Models that you have are under “On this disk”.",
            sentence=_sentence(state.problem),
        )
    named = state.repo is not None and state.repo.repo == state.query.words  # it is open
    if not state.results and not named:
        return tr("Nothing found. Try fewer words, or other filters.")
    return ""


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."


def _facts(repo: FoundRepo, listed: bool) -> str:
    """Say what is known of a repository; a recommended one has facts once it is `listed`."""
    facts = []
    if repo.licence or listed:
        facts.append(tr("Licence: {licence}", licence=repo.licence or tr("not stated")))
    if repo.parameters is not None:
        facts.append(tr("{parameters} parameters", parameters=_parameters(repo.parameters)))
    if repo.downloads:
        facts.append(tr("{downloads} downloads", downloads=grouped(repo.downloads)))
    if repo.gated:
        facts.append(tr("gated: its terms must be accepted on its page"))
    return " · ".join(facts)


def _fits(row: FoundQuant) -> bool:
    return row.plan is not None and row.plan.verdict == "fits"


def _too_big(row: FoundQuant) -> bool:
    return row.plan is not None and row.plan.verdict == "too_big"


def _replace(table: Table, rows: list[Any]) -> None:
    if list(table.rows.all_rows) != rows:
        table.rows.show_rows(list(rows))


def _combo(name: str, choices: tuple[tuple[str, Any], ...]) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setMinimumContentsLength(10)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    for text, value in choices:
        box.addItem(text, value)
    return box
