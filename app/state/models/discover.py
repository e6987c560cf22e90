"""Searching the Hugging Face Hub: results, a repository's models, and a plan for each."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from app.client import EngineClient, PendingRequest
from app.fetch.heads import Heads, fetch_heads
from app.fetch.quants import FoundQuant, HeaderPlan, header_plan, preselected, quants
from app.fetch.search import FoundRepo, Hub, HubError, RepoFile, SearchQuery
from app.fetch.shelf import SHELF, Recommended
from app.language import tr
from app.work import Work
from engine.protocol import DescribePlan, Devices, ListDevices, Planned
from engine.settings import EngineOptions

__all__ = ["Discover", "FoundQuant", "FoundRepo", "HeaderPlan", "SearchQuery", "ShelfRow"]

State = Literal["idle", "searching", "done", "offline", "failed"]
AT_MOST_MS = 5000  # until the Hub counts as out of reach
ROOM = 1.2  # a model's file and its context in a conversation, as multiples of the file
AT_ONCE = 2  # rows planned side by side
WANTED_CTX = 8192  # tokens; a model that was trained for fewer gets its own number
SMALLER_CTX = (4096, 2048, 1024)
LEAST_CTX = 512

log = logging.getLogger("fetch")


@dataclass(frozen=True)
class ShelfRow:
    """A recommended model; `fits` is an estimate from its size, None until devices are known."""

    model: Recommended
    fits: bool | None = None


@dataclass(frozen=True)
class _Outcome:
    """The result of one request, or why there is none."""

    value: Any = None
    error: HubError | None = None


@dataclass(eq=False)
class _Planning:
    """A row on its way to a plan; `least` is the plan with the least context, if that fits."""

    row: FoundQuant
    heads: Heads | None = None
    least: Planned | None = None
    work: Work | None = None
    request: PendingRequest | None = None

    def stop(self) -> None:
        """Give up."""
        if self.work is not None:
            self.work.cancel()
        if self.request is not None:
            self.request.cancel()


class Discover(QObject):
    """`results` of the latest search, `rows` the models of the repository that is open.

    `state` and `problem` describe the search, `repo_state` and `repo_problem` the open repository;
    `waiting_s` counts down while the Hub limits the rate. `selected` is the key of the row to
    offer. `options` are those that a model would be opened with. `shelf` has the
    recommended models, those that fit this machine first.
    """

    changed = Signal()  # results, state, rows, shelf
    row_changed = Signal(str)  # a row's key: its plan came, or failed

    def __init__(
        self,
        client: EngineClient,
        options: Callable[[], EngineOptions] = EngineOptions,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._options = client, options
        self.query = SearchQuery()
        self.state: State = "idle"
        self.problem = ""
        self.waiting_s: float | None = None
        self.results: list[FoundRepo] = []
        self.repo: FoundRepo | None = None
        self.repo_state: State = "idle"
        self.repo_problem = ""
        self.gated_page = ""
        self.rows: list[FoundQuant] = []
        self.selected: str | None = None
        self.shelf = [ShelfRow(model) for model in SHELF]
        self._next = ""
        self._search: Work | None = None
        self._opening: Work | None = None
        self.plans: dict[str, HeaderPlan] = {}
        self._waiting: list[_Planning] = []  # rows whose headers are not fetched yet
        self.planning: list[_Planning] = []
        self.patience = QTimer(self, singleShot=True, interval=AT_MOST_MS)
        self.patience.timeout.connect(self._on_silence)
        self._shelf_requested = False

    @property
    def has_more(self) -> bool:
        """True if there is another page of results."""
        return bool(self._next) and self.state == "done"

    def search(self, query: SearchQuery) -> None:
        """Begin a search in place of the one before."""
        self.query, self.results, self._next = query, [], ""
        self._begin(lambda hub: hub.search(query))

    def more(self) -> None:
        """Add the next page of results, if there is one."""
        if self.has_more:
            url = self._next
            self._begin(lambda hub: hub.page(url))

    def open_repo(self, repo: str) -> None:
        """List the models of a repository, in place of the one that was open."""
        self._close_repo()
        found = next((row for row in self.results if row.repo == repo), None)
        self.repo = found or FoundRepo(repo, repo.partition("/")[0])
        self.repo_state = "searching"
        work = Work.polling(_open, repo, found).then(partial(self._on_opened, repo))
        self._opening = work.fail(partial(self._on_open_failed, repo)).start(self)
        self.changed.emit()

    def plan(self, key: str) -> None:
        """Plan one row from its header, unless that was done; for rows in view."""
        row = self._row(key)
        if row is None or not row.supported or row.plan is not None or row.problem:
            return
        if key in self.plans:
            self.put(replace(row, plan=self.plans[key]))
        elif all(key != planning.row.key for planning in (*self._waiting, *self.planning)):
            self._waiting.append(_Planning(row))
            self._plan_next()

    def cancel(self) -> None:
        """Stop searching and planning; what is there stays."""
        self.patience.stop()
        if self._search is not None:
            self._search.cancel()
            self._search = None
            self.state = "done" if self.results else "idle"
        self.waiting_s = None
        self._stop_opening()
        self.changed.emit()

    def look_at_machine(self) -> None:
        """Order the shelf by what fits this machine; once a run."""
        if not self._shelf_requested:
            self._shelf_requested = True
            self._client.send(ListDevices(0), self.on_devices, lambda failed: None)

    def _begin(self, request: Callable[[Hub], object]) -> None:
        if self._search is not None:
            self._search.cancel()
        self.state, self.problem, self.waiting_s = "searching", "", None
        work = Work.polling(_request, request).then(self._on_page)
        work.progress(self._on_waiting).fail(lambda text: self.fail("failed", text))
        self._search = work.start(self)
        self.patience.start()
        self.changed.emit()

    def _on_page(self, outcome: _Outcome) -> None:
        self.patience.stop()
        self._search, self.waiting_s = None, None
        if outcome.error is not None:
            kind: State = "offline" if outcome.error.cause == "offline" else "failed"
            self.fail(kind, str(outcome.error))
            return
        found, self._next = outcome.value
        known = {row.repo for row in self.results}
        self.results = [*self.results, *(row for row in found if row.repo not in known)]
        self.state = "done"
        self.changed.emit()

    def _on_waiting(self, seconds: float) -> None:
        self.patience.stop()  # the Hub has answered
        self.waiting_s = seconds
        self.changed.emit()

    def _on_silence(self) -> None:
        """A name server or a connection takes longer than anybody waits."""
        if self._search is not None:
            self._search.cancel()
            self._search = None
            text = tr(
                "{host} has not answered for 5 s; check the network and the proxy", host=Hub().host
            )
            self.fail("offline", text)

    def fail(self, state: State, problem: str) -> None:
        self.patience.stop()
        self._search, self.waiting_s = None, None
        self.state, self.problem = state, problem
        log.warning("%s", problem)
        self.changed.emit()

    def close_repo(self) -> None:
        """Show no repository; what is listed or planned of the open one is given up."""
        self._close_repo()
        self.changed.emit()

    def _close_repo(self) -> None:
        self._stop_opening()
        self.repo, self.rows, self.selected = None, [], None
        self.repo_problem, self.gated_page = "", ""

    def _stop_opening(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
            self.repo_state = "idle"
        self._waiting.clear()
        for planning in self.planning:
            planning.stop()
        self.planning.clear()

    def _on_opened(self, repo: str, outcome: _Outcome) -> None:
        self._opening = None
        if outcome.error is not None:
            self.repo_state = "offline" if outcome.error.cause == "offline" else "failed"
            self.repo_problem = str(outcome.error)
            self.gated_page = outcome.error.page if outcome.error.cause == "gated" else ""
        else:
            self.repo, files = outcome.value
            self.rows = quants(repo, files)
            self.repo_state = "done"
            if not self.rows:
                self.repo_problem = tr("{repo} has no GGUF file of a model", repo=repo)
            self._select()
        self.changed.emit()

    def _on_open_failed(self, repo: str, problem: str) -> None:
        self._opening, self.repo_state, self.repo_problem = None, "failed", problem
        self.changed.emit()

    def _select(self) -> None:
        parameters = self.repo.parameters if self.repo is not None else None
        row = preselected(self.rows, parameters)
        self.selected = row.key if row is not None else None

    def _row(self, key: str) -> FoundQuant | None:
        return next((row for row in self.rows if row.key == key), None)

    def put(self, row: FoundQuant) -> None:
        self.rows = [row if old.key == row.key else old for old in self.rows]
        self._select()
        self.row_changed.emit(row.key)

    def _plan_next(self) -> None:
        while self._waiting and len(self.planning) < AT_ONCE:
            planning = self._waiting.pop(0)
            self.planning.append(planning)
            work = Work.polling(_heads, planning.row).then(partial(self._on_heads, planning))
            planning.work = work.fail(partial(self._on_plan_failed, planning)).start(self)

    def _on_heads(self, planning: _Planning, heads: Heads) -> None:
        planning.heads = heads
        self._describe(planning, WANTED_CTX)

    def _describe(self, planning: _Planning, ctx: int) -> None:
        heads = planning.heads
        assert heads is not None
        mmproj = str(heads.projector) if heads.projector is not None else "none"
        options = replace(self._options(), ctx=ctx, mmproj=mmproj)
        planning.request = self._client.send(
            DescribePlan(0, str(heads.model), options),
            partial(self._on_planned, planning, ctx),
            lambda failed: self._on_plan_failed(planning, failed.message),
        )

    def _on_planned(self, planning: _Planning, ctx: int, planned: Planned) -> None:
        """Decide, or ask about another context: the least one first, which many will not fit."""
        if ctx == LEAST_CTX and not planned.problem:
            planning.least = planned
            self._describe(planning, SMALLER_CTX[0])
        elif ctx == WANTED_CTX and planned.problem:
            self._describe(planning, LEAST_CTX)
        elif planned.problem and ctx in SMALLER_CTX[:-1]:
            self._describe(planning, SMALLER_CTX[SMALLER_CTX.index(ctx) + 1])
        else:
            best = planning.least if planned.problem and planning.least else planned
            self._end_plan(planning, plan=header_plan(best, smaller=ctx < WANTED_CTX))

    def _on_plan_failed(self, planning: _Planning, problem: str) -> None:
        self._end_plan(planning, problem=problem)

    def _end_plan(
        self, planning: _Planning, plan: HeaderPlan | None = None, problem: str = ""
    ) -> None:
        if planning not in self.planning:  # another repository was opened
            return
        self.planning.remove(planning)
        key = planning.row.key
        if plan is not None:
            self.plans[key] = plan
        row = self._row(key)
        if row is not None:
            self.put(replace(row, plan=plan, problem=problem))
        self._plan_next()

    def on_devices(self, reply: Devices) -> None:
        room = max((device.memory for device in reply.devices), default=0)
        rows = [replace(row, fits=row.model.size * ROOM <= room) for row in self.shelf]
        self.shelf = sorted(rows, key=lambda row: not row.fits)
        self.changed.emit()


def _request(job: Work, request: Callable[[Hub], object]) -> _Outcome:
    try:
        return _Outcome(request(Hub(lambda: job.cancelled, job.report)))
    except HubError as error:
        return _Outcome(error=error)


def _open(job: Work, repo: str, found: FoundRepo | None) -> _Outcome:
    def both(hub: Hub) -> tuple[FoundRepo, list[RepoFile]]:
        return found or hub.repository(repo), hub.files(repo)

    return _request(job, both)


def _heads(job: Work, row: FoundQuant) -> Heads:
    return fetch_heads(Hub(lambda: job.cancelled), row)
