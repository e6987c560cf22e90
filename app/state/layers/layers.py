"""The placement being edited: each change priced by the engine, undone, typed, applied."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.history import History
from app.state.layers.applying import Applying, Measuring
from app.state.layers.lanes import (
    HOST,
    Lane,
    LayerTile,
    devices_in_use,
    lanes_of,
    moved_tiles,
    shortfalls,
)
from app.state.layers.placing import EditedPlacement
from app.state.session import Session
from engine.protocol import DeviceRow, Devices, Failed, ListDevices, Reprice, Repriced
from engine.settings import EngineOptions


class TypedRule:
    """`text` as it was typed, until it counts; `problem` says in a sentence what is wrong with it.

    `on_change` is called when either has changed.
    """

    def __init__(self, client: EngineClient, on_change: Callable[[], None]) -> None:
        self.text = self.problem = ""
        self._question, self._on_change = Latest(client), on_change

    def parse(
        self,
        text: str,
        path: Path,
        options: EngineOptions,
        understood: Callable[[Repriced], None],
    ) -> None:
        """Have the engine parse the rule within `options`; then it counts."""
        self.text, self.problem = text, ""

        def take(answer: Repriced) -> None:
            self.text = ""
            understood(answer)

        self._question.send(Reprice(0, str(path), options), take, self._refused)

    def forget(self) -> None:
        """The rule as it was, in place of what was typed."""
        self._question.forget()
        self.text = self.problem = ""

    def _refused(self, failed: Failed) -> None:
        self.problem = failed.message
        self._on_change()


@dataclass(frozen=True)
class PlacedFile:
    """The open model, or a file that would be loaded with `options`."""

    path: Path
    options: EngineOptions
    is_open: bool

    def is_like(self, other: "PlacedFile") -> bool:
        """Return whether both differ at most in the placement and in being open."""
        options = replace(other.options, place=self.options.place)
        return (self.path, self.options) == (other.path, options)


@dataclass(frozen=True)
class Draft:
    """A placement by its rule; empty is the engine's own choice. `placement` is None until an
    engine has parsed a rule.
    """

    rule: str
    placement: EditedPlacement | None = None


TYPING = "rule"
WAITING = {
    "loading": tr("The model is loading."),
    "died": tr("The engine has stopped: restart it."),
}


class LayersState(QObject):
    """`answer` is what the engine says of `draft`, or of one before while `pending`; `base` what
    it says of the file as it is loaded, or would be without any edit.

    `typed` is a rule that does not count yet; `problem` says why the file cannot be placed. A view
    that is not shown requests nothing.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        load: Callable[[Path, EngineOptions], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client, self._session = client, session
        self.file: PlacedFile | None = None
        self.base: Repriced | None = None
        self.answer: Repriced | None = None
        self.problem = ""
        self.devices: list[DeviceRow] = []
        self.applying = Applying(client, session, load, self)
        self.measuring = Measuring(client, session, self)
        self._history = History(Draft(""))
        self._preview: Draft | None = None
        self._answers: Draft | None = None  # what `answer` is about
        self._other: PlacedFile | None = None
        self._added: list[str] = []
        self._lanes: tuple[object, Repriced, list[Lane]] | None = None  # of the key at its front
        self._shown = self._devices_requested = self._base_requested = False
        self._requested_rule: str | None = None
        self._base_question, self._question = Latest(client), Latest(client)
        self.typed = TypedRule(client, self.changed.emit)
        client.on(Devices, self._on_devices)
        client.restarted.connect(self._on_restarted)
        session.changed.connect(self._follow)
        self.applying.changed.connect(self.changed)
        self.measuring.changed.connect(self.changed)
        self.measuring.ended.connect(self._send_again)
        self.applying.moved.connect(self._on_moved)

    # What is edited

    @property
    def draft(self) -> Draft:
        """The placement that is shown."""
        return self._preview or self._history.now

    @property
    def placement(self) -> EditedPlacement | None:
        """Where everything lies now; None before the engine's answer."""
        known = self.draft.placement
        if known is not None or self.answer is None:
            return known
        return EditedPlacement.of(self.answer.layers, self.answer.overrides)

    @property
    def pending(self) -> bool:
        """True while `answer` is missing or belongs to another placement."""
        return self._answers is None or self._answers.rule != self.draft.rule

    @property
    def is_automatic(self) -> bool:
        return not self.draft.rule

    @property
    def is_edited(self) -> bool:
        """True if the shown placement is not the file's own."""
        return self.file is not None and self.draft.rule != self.file.options.place

    @property
    def can_undo(self) -> bool:
        return self._history.can_undo

    @property
    def can_redo(self) -> bool:
        return self._history.can_redo

    @property
    def options(self) -> EngineOptions:
        """The file's options with the rule that is shown."""
        options = self.file.options if self.file is not None else EngineOptions()
        return replace(options, place=self.draft.rule)

    def lane_devices(self) -> list[str]:
        """Devices with a lane, in the order of the engine's list, the host last."""
        return devices_in_use(self.answer, self.placement, self.devices, self._added)

    def lanes(self) -> list[Lane]:
        """The lanes of all devices; empty before the first answer."""
        answer, placed = self.answer, self.placement
        if answer is None or placed is None:
            return []
        memory = {row.id: row.memory for row in self.devices}
        key = id(answer), placed, tuple(self.lane_devices()), tuple(memory)
        if self._lanes is None or self._lanes[0] != key:
            self._lanes = key, answer, lanes_of(answer, placed, key[2], memory)
        return self._lanes[2]

    def missing(self) -> Mapping[str, int]:
        """Bytes by which each device has too much, as the engine said last."""
        return shortfalls(self.answer) if self.answer is not None else {}

    def blocked(self) -> str:
        """Why the placement cannot be applied now; empty where it can."""
        if self.file is None:
            return tr("No model is chosen.")
        if self.applying.is_busy:
            return tr("A placement is being applied.")
        if self._session.status in WAITING:
            return WAITING[self._session.status]
        if self.problem:
            return self.problem
        if self.pending or self.answer is None:
            return tr("Memory is being estimated.")
        if self.answer.problem or self.missing():
            return tr(
                "It does not fit: {problem}",
                problem=self.answer.problem or tr("a device has too little memory"),
            )
        if self.file.is_open and self._session.status == "answering":
            return tr("An answer is being generated.")
        if self.file.is_open and not self.is_edited:
            return tr("The layers are already placed like this.")
        return ""

    # Whose placement it is

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible."""
        self._shown = shown
        if shown and not self._devices_requested:
            self._devices_requested = True
            self._client.send(ListDevices(0), fail=lambda _: None)
        if shown:
            self._send()

    def look_at(self, path: Path, options: EngineOptions) -> None:
        """Place a file as `options` would load it, until another is opened; the open model where
        these differ from its own in the placement at most.
        """
        own, wanted = self._own_file(), PlacedFile(path, options, False)
        if own is None or not own.is_open or not wanted.is_like(own):
            self._other = wanted
            self._begin(wanted)
            return
        self._other = None
        if self.file != own:
            self._begin(own)
        self._history.put(Draft(options.place))
        self._edited()

    def add_lane(self, device: str) -> None:
        """A lane for a device that has nothing yet."""
        self._added.append(device)
        self.changed.emit()

    def unused_devices(self) -> list[str]:
        """Devices without a lane."""
        shown = self.lane_devices()
        return [name for name in [*(row.id for row in self.devices), HOST] if name not in shown]

    # Edits

    def move_tiles(self, tiles: Sequence[LayerTile], device: str, parts: Collection[str]) -> None:
        """Put tiles there, or only some `parts` of them (empty: all)."""
        placed = self.placement
        if placed is not None:
            moved = moved_tiles(placed, tiles, device, parts)
            self._put(moved, (tuple((t.layer, t.home) for t in tiles), tuple(sorted(parts))))

    def move_boundary(self, at: int, to: int) -> int:
        """Move the boundary before layer `at`; where it is then."""
        placed = self.placement
        if placed is None:
            return at
        first, last = placed.neighbours(at)
        to = min(max(to, first + 1), last)
        self._put(placed.with_boundary(at, to), ("boundary", first, last))
        return to

    def preview(self, placement: EditedPlacement) -> None:
        """Show and price a placement that is not kept yet, while something is dragged."""
        self._preview = Draft(placement.rule(), placement)
        self._edited()

    def keep_preview(self, subject: object = None) -> None:
        """Keep the dragged placement as one step of the history."""
        if self._preview is not None:
            kept, self._preview = self._preview, None
            self._history.put(kept, subject)
            self._edited()

    def drop_preview(self) -> None:
        """Discard the dragged placement."""
        if self._preview is not None:
            self._preview = None
            self._edited()

    def automatic(self) -> None:
        """The engine's own placement."""
        self._history.put(Draft(""))
        self._edited()

    def undo(self) -> None:
        self._history.undo()
        self._edited()

    def redo(self) -> None:
        self._history.redo()
        self._edited()

    def type_rule(self, text: str) -> None:
        """Ask what a rule means; it counts when the engine has understood it."""
        if self.file is None:
            return
        draft = Draft(text.strip())

        def understood(answer: Repriced) -> None:
            self._history.put(draft, TYPING)
            self._take(draft, answer)
            self.changed.emit()

        if draft.rule == self.draft.rule:
            self.typed.forget()
        else:
            options = replace(self.file.options, place=draft.rule)
            self.typed.parse(text, self.file.path, options, understood)
        self.changed.emit()

    def end_typing(self) -> None:
        """Make further typing a step of its own."""
        self._history.settle()

    def forget_typed(self) -> None:
        """The rule as it is, in place of what was typed."""
        self.typed.forget()
        self.changed.emit()

    def measure(self, again: bool = False) -> None:
        """Time the devices that have a lane, for the speeds that are predicted."""
        devices = [device for device in self.lane_devices() if device != HOST]
        if self.file is not None and devices:
            self.measuring.start(self.file.path, self.file.options, devices, again)

    def apply(self) -> None:
        """Move what has to move, or load the file so; nothing where it is `blocked`."""
        if self.file is not None and not self.blocked():
            moves = self.file.is_open and not self.applying.needs_load
            self.applying.start(self.file.path, self.options, moves)
            self._history.settle()

    # What comes of it

    def _put(self, placement: EditedPlacement, subject: object) -> None:
        self._preview = None
        self._history.put(Draft(placement.rule(), placement), subject)
        self._edited()

    def _edited(self) -> None:
        self.problem = ""
        self.typed.forget()
        self.applying.forget_result()
        self._send()
        self.changed.emit()

    def _own_file(self) -> PlacedFile | None:
        """The file that the session has open or is opening."""
        session = self._session
        if session.path is None or session.connection is not None:
            return None
        return PlacedFile(session.path, session.options, session.model is not None)

    def _follow(self) -> None:
        """The session has another model, or another status."""
        other = self._other
        if other is None or self._session.status == "loading" or self.file != other:
            self._other, own = None, self._own_file()
            if own != self.file and not self.applying.is_busy:
                self._begin(own)
        self._send()
        self.changed.emit()

    def _begin(self, file: PlacedFile | None) -> None:
        """Look at a file; what was edited of the same one is kept, also where the engine dies."""
        before, self.file = self.file, file
        for question in (self._base_question, self._question, self.typed):
            question.forget()
        self.base = self.answer = self._answers = self._preview = None
        self._base_requested, self._requested_rule = False, None
        self.problem = ""
        own = file.options.place if file is not None else ""
        if before is None or file is None or not file.is_like(before):
            self._added = []
            self._history = History(Draft(own))
        elif own != before.options.place:
            self._history.put(Draft(own))
        self._send()
        self.changed.emit()

    def _send(self) -> None:
        """Ask about the file's own placement once, and about the one shown if it is another."""
        file = self.file
        if not self._shown or file is None or self._session.status in WAITING:
            return
        if self.base is None and not self._base_requested:
            self._base_requested = True
            request = Reprice(0, str(file.path), file.options)
            self._base_question.send(request, self._on_base, self._on_problem)
        draft = self.draft
        if draft.rule == file.options.place or not self.pending:
            self._question.forget()
            self._requested_rule = None
            if self.base is not None and self.pending:
                self._take(draft, self.base)
        elif draft.rule != self._requested_rule:
            self._requested_rule = draft.rule
            request = Reprice(0, str(file.path), self.options)
            self._question.send(
                request, lambda answer: self._on_answer(draft, answer), self._on_problem
            )

    def _take(self, draft: Draft, answer: Repriced) -> None:
        self.answer, self._answers, self.problem = answer, draft, ""

    def _on_base(self, answer: Repriced) -> None:
        self.base = answer
        if not self.is_edited or self.answer is None:
            assert self.file is not None
            self._take(Draft(self.file.options.place), answer)
        self.changed.emit()

    def _on_answer(self, draft: Draft, answer: Repriced) -> None:
        self._take(draft, answer)
        self.changed.emit()

    def _on_problem(self, failed: Failed) -> None:
        self.problem = failed.message
        self.changed.emit()

    def _on_devices(self, reply: Devices) -> None:
        self.devices = reply.devices
        self.changed.emit()

    def _on_moved(self) -> None:
        """The open model lies as requested: that is its own placement now."""
        session = self._session
        if session.path is not None and self.file is not None:
            self.file = PlacedFile(session.path, session.options, True)
            self.base, self._base_requested = None, False
            self._send()
        self.changed.emit()

    def _on_restarted(self) -> None:
        """A fresh engine knows no questions of the one before."""
        self.problem, self._devices_requested = "", False
        self._send_again()
        self.shown(self._shown)

    def _send_again(self) -> None:
        """Drop all answers and request them again."""
        self._answers = self.base = None
        self._base_requested, self._requested_rule = False, None
        self._send()
