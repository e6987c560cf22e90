"""The graph of the model that is open or chosen: what is shown of it, and in which way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.state.graph.blocks import GraphIndex, key_of, title_of
from app.state.graph.difference import GraphChange, change, difference
from app.state.graph.scene import GraphScene, SceneMaker, Shows, with_pin
from app.state.selection import Selected
from app.state.session import Session
from app.work import Work
from engine.protocol import DescribeGraph, Devices, Failed, GraphDone, ListDevices, StepTimes
from engine.settings import EngineOptions

LEAST_CELLS = 256


def launch_times(graph: GraphDone, ns: Sequence[int]) -> Mapping[int, int]:
    """Nanoseconds of each launch of a graph, `ns` being those of its kernels in order; nothing
    where the step that was measured had other kernels.
    """
    if len(ns) != sum(len(launch.kernels) for launch in graph.launches):
        return {}
    found, at = {}, 0
    for number, launch in enumerate(graph.launches):
        found[number] = sum(ns[at : at + len(launch.kernels)])
        at += len(launch.kernels)
    return found


def cells_bucket(n_cells: int) -> int:
    """The size of a plan's caches for a context: 256, doubled until it holds so many."""
    size = LEAST_CELLS
    while size < n_cells:
        size *= 2
    return size


Phase = Literal["decode", "prefill"]
TOKENS: dict[Phase, int] = {"decode": 1, "prefill": 512}
Open = Callable[[EngineOptions], None]


class GraphState(QObject):
    """Asks only while a view is shown. `indices` has the graph of a step of one token and of a
    prompt's, `scenes` what is drawn of each that is `wanted`.

    `preview` is the graph with a pin that is not applied yet, `pin` which; `launch_ns` is what the
    launches of one token took where a step was measured; `problem` says in a sentence why there is
    nothing to show.
    """

    changed = Signal()  # graphs, scenes, problem or preview
    timed = Signal()  # launch_ns

    def __init__(
        self, client: EngineClient, session: Session, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client, self._session = client, session
        self.indices: dict[Phase, GraphIndex] = {}
        self.scenes: dict[Phase, GraphScene] = {}
        self.problem = ""
        self.phases: tuple[Phase, ...] = ("decode",)
        self.shows: Shows = "operations"
        self.collapsed = True
        self.preview: GraphIndex | None = None
        self.pin: tuple[str, str | None] | None = None
        self.devices: list[str] = []
        self.launch_ns: Mapping[int, int] = {}
        self._is_shown = False
        self._fresh: set[Phase] = set()  # whose graph is that of the present model and options
        self._of: tuple[object, ...] | None = None
        self._chosen: list[int] = []  # blocks that stand for those that are alike
        self._requests = {phase: Latest(client) for phase in TOKENS}
        self._pinned, self._listed = Latest(client), Latest(client)
        self._makers = {phase: SceneMaker() for phase in TOKENS}
        self._drawing: Work | None = None
        self._differences: dict[Phase, tuple[GraphIndex, GraphIndex, Mapping[int, str]]] = {}
        self._n_cells: int | None = None  # of the context of one token's graph
        session.changed.connect(self._follow)
        client.on(StepTimes, self._on_times)

    @property
    def is_known(self) -> bool:
        """True once all required graphs and scenes are up to date."""
        return all(
            phase in self._fresh
            and phase in self.scenes
            and self.scenes[phase].index is self.indices[phase]
            for phase in self.phases
        )

    @property
    def looking(self) -> bool:
        """True while a graph is being requested or laid out."""
        return self._of is not None and not self.is_known and not self.problem

    @property
    def from_header(self) -> bool:
        """True while only the file's header is known: the model is not open."""
        return self._of is not None and not self._of[-1]

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible."""
        self._is_shown = shown
        if shown:
            self._follow()

    def show_phases(self, *phases: Phase) -> None:
        """A step of one token, one of a prompt, or both beside each other."""
        self.phases = phases
        self._send()

    def show_as(self, shows: Shows) -> None:
        """Operations, or the launches that they became."""
        self.shows = shows
        self._draw()
        self.changed.emit()

    def collapse(self, collapsed: bool) -> None:
        """Set whether identical blocks are drawn as one card."""
        self.collapsed = collapsed
        self._draw()
        self.changed.emit()

    def choose_block(self, block: int | None) -> None:
        """The block that its card is to show; nothing where a card of its own does."""
        if block is None or block in self._chosen:  # as it is, or is being drawn
            return
        cards = [card for scene in self.scenes.values() for card in scene.cards]
        mine = [card for card in cards if block in card.blocks]
        if any(card.shown != block for card in mine):
            alike = set().union(*(card.blocks for card in mine))
            self._chosen = [other for other in self._chosen if other not in alike] + [block]
            self._draw()

    def differences(self, phase: Phase) -> Mapping[int, str]:
        """The nodes of a graph that are not the same in the one beside it, or with the pin."""
        index = self.indices.get(phase)
        other = next((self.indices.get(p) for p in self.phases if p != phase), self.preview)
        if index is None or other is None:
            return {}
        if self._differences.get(phase, (None, None, {}))[:2] != (index, other):
            self._differences[phase] = index, other, difference(index, other)
        return self._differences[phase][2]

    def node_of(self, phase: Phase, selected: Selected) -> int | None:
        """The node that is selected."""
        index = self.indices.get(phase)
        if index is None or selected.operation is None:
            return None
        return index.by_key.get(selected.operation)

    def key_of_launch(self, phase: Phase, number: int, name: str) -> str:
        """Return the key that a selection uses for the result of a launch of that name; without the
        graph, which of several results of one name it is is not known.
        """
        index = self.indices.get(phase)
        launches = index.graph.launches if index is not None else []
        if index is not None and number < len(launches) and launches[number].nodes:
            node = index.graph.nodes[launches[number].nodes[-1]]
            if node.name == name:
                return key_of(node)
        return name

    def find(self, phase: Phase, words: str) -> list[int]:
        """Nodes whose name, operation, type, device or cause has every word, in order."""
        index, wanted = self.indices.get(phase), words.lower().split()
        if index is None or not wanted:
            return []
        found = []
        for number in index.block_of:
            node = index.graph.nodes[number]
            fields = (key_of(node), title_of(node), node.op, node.dtype, node.device, node.cause)
            text = " ".join(fields).lower()
            if all(word in text for word in wanted):
                found.append(number)
        return found

    # Pins

    @property
    def rule(self) -> str:
        """The placement as it is, in the words of `--place`."""
        return self._session.options.place

    def try_pin(self, name: str, device: str | None) -> None:
        """Ask what a pin would change; with None, what taking it away would."""
        self.pin, self.preview, self.problem = (name, device), None, ""
        place = with_pin(self.rule, name, device)
        options = replace(self._session.options, place=place)
        request = DescribeGraph(0, str(self._session.path), options, TOKENS[self.phases[0]])
        self._pinned.send(request, self._previewed, self._pin_refused)
        self.changed.emit()

    def change(self) -> GraphChange | None:
        """The difference that the tried pin would make, or None."""
        index = self.indices.get(self.phases[0])
        return change(index, self.preview) if index and self.preview is not None else None

    def drop_pin(self) -> None:
        """Leave the placement as it is."""
        self._pinned.forget()
        self.pin = self.preview = None
        self.problem = ""
        self.changed.emit()

    def apply_pin(self, open_model: Open) -> None:
        """Have the model opened with the pin that was tried."""
        if self.pin is not None and self.preview is not None:
            options = replace(self._session.options, place=with_pin(self.rule, *self.pin))
            self.drop_pin()
            open_model(options)

    def _previewed(self, graph: GraphDone) -> None:
        self.preview = GraphIndex(graph)
        self.changed.emit()

    def _pin_refused(self, failed: Failed) -> None:
        self.pin = None
        self.problem = failed.message
        self.changed.emit()

    # What is requested and drawn

    def _follow(self) -> None:
        """Ask anew where another model, or the same with other options, is open or chosen."""
        session = self._session
        of = None
        if session.path is not None and session.connection is None:
            of = str(session.path), session.options, session.model is not None
        if not self._is_shown or of == self._of:
            return
        other = self._of is None or of is None or self._of[0] != of[0]
        self._of, self.problem = of, ""
        self.pin = self.preview = None
        self._fresh, self.launch_ns, self._n_cells = set(), {}, None
        if other:
            self.indices, self.scenes, self._chosen = {}, {}, []
        for latest in (*self._requests.values(), self._pinned):
            latest.forget()
        self._send()

    def _send(self) -> None:
        if self._of is None or not self._client.abilities.splits:
            self.changed.emit()
            return
        if not self.devices:
            self._listed.send(ListDevices(0), self._devices_known, lambda failed: None)
        session = self._session
        path = "" if session.model is not None else str(session.path)
        for phase in self.phases:
            if phase not in self._fresh:
                n_cells = self._n_cells if phase == "decode" else None
                request = DescribeGraph(0, path, session.options, TOKENS[phase], n_cells)
                self._requests[phase].send(request, self._taking(phase), self._failed)
        self._draw()
        self.changed.emit()

    def _taking(self, phase: Phase) -> Callable[[GraphDone], None]:
        def take(graph: GraphDone) -> None:
            self.indices[phase] = GraphIndex(graph)
            self._fresh.add(phase)
            self._draw()

        return take

    def _on_times(self, times: StepTimes) -> None:
        """Take the times of each launch; if the context has outgrown the graph, request the graph
        again.
        """
        index = self.indices.get("decode")
        if not self._is_shown or index is None or "decode" not in self._fresh:
            return
        self.launch_ns = launch_times(index.graph, times.launch_ns)
        outgrown = cells_bucket(times.n_context) != cells_bucket(index.graph.n_cells)
        if outgrown and self._session.model is not None:
            self._n_cells = min(times.n_context, self._session.model.n_ctx)
            self._fresh.discard("decode")
            self._send()
        self.timed.emit()

    def _failed(self, failed: Failed) -> None:
        self.problem = failed.message
        self.changed.emit()

    def _devices_known(self, reply: Devices) -> None:
        self.devices = [*(row.id for row in reply.devices), "host"]
        self.changed.emit()

    def _draw(self) -> None:
        """Lay out what is known, in a thread of its own."""
        if self._drawing is not None:
            self._drawing.cancel()
        indices = {phase: self.indices[phase] for phase in self.phases if phase in self.indices}
        if indices:
            wanted = self.shows, self.collapsed, tuple(self._chosen)
            self._drawing = Work(self._scenes, indices, *wanted).then(self._drawn).start(self)

    def _scenes(
        self,
        indices: Mapping[Phase, GraphIndex],
        shows: Shows,
        collapsed: bool,
        chosen: tuple[int, ...],
    ) -> dict[Phase, GraphScene]:
        return {
            phase: self._makers[phase].make(index, shows, collapsed, chosen)
            for phase, index in indices.items()
        }

    def _drawn(self, scenes: dict[Phase, GraphScene]) -> None:
        self._drawing = None
        self.scenes = {phase: scene for phase, scene in scenes.items() if phase in self.phases}
        self.changed.emit()
