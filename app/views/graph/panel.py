"""All that is known of one node or launch: what it is, why it runs there, what it became."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QGridLayout,
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.language import tr, tr_n
from app.state.graph.blocks import GraphIndex, is_leaf, key_of, shape_text, title_of
from app.state.graph.overlay import NOT_COMPARED, NodeError, error_text, launch_errors, result_key
from app.theme.tokens import GRID
from app.views.graph.node_table import cause_words
from app.views.graph.pages import kernel_source
from app.views.graph.ribbon import ArenaView, describe_life
from app.widgets.basics import Button, label, scrolled
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, vbox
from app.widgets.numbers import grouped, kib, milliseconds
from engine.protocol import GraphNode, LaunchNode

MOST = 8  # sources or readers that are listed

Fact = tuple[str, str]


class NodePanel(QWidget):
    """Shows a node, a launch, or in a sentence what else is selected."""

    node_wanted = Signal(int)
    source_wanted = Signal(str, str)  # kernel, what it is built with
    pin_wanted = Signal(int, QPoint)  # a node, and where on the screen its menu is to open

    def __init__(self) -> None:
        super().__init__()
        self._index: GraphIndex | None = None
        self.title = ElidedLabel(size="strong")
        self.title.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        self.kind = label(tone="quiet", size="small", wrap=True)
        self.why = label(wrap=True)
        self.note = label(tone="warn", wrap=True)
        self.arena = ArenaView()
        self.arena.picked.connect(self.node_wanted)
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(2 * GRID)
        self._facts.setVerticalSpacing(4)
        self._facts.setColumnStretch(1, 1)
        self._links, self._buttons = QVBoxLayout(), QHBoxLayout()
        self._links.setSpacing(0)
        body = _Tall()
        vbox(
            self.title,
            self.kind,
            self.why,
            self.note,
            self._buttons,
            self._facts,
            self.arena,
            self._links,
            STRETCH,
            on=body,
            margins=(0, 0, GRID, 0),
        )
        vbox(scrolled(body), on=self)
        self.say("", "")

    @property
    def text(self) -> str:
        """What it says of the node, a line each."""
        parts = (self.title.text(), self.kind.text(), self.why.text(), self.note.text())
        return "\n".join(part for part in parts if part)

    def say(self, title: str, text: str) -> None:
        """A sentence in place of a node."""
        self._clear()
        self._head(title, "", text, "")
        self.arena.show_life(None, -1, 1)

    def show_node(
        self,
        index: GraphIndex,
        number: int,
        ns: int | None,
        change: str,
        error: NodeError | None = None,
    ) -> None:
        """`ns` is what its launch took, `change` how it differs in another graph, `error` that
        against the host.
        """
        self._clear()
        self._index = index
        graph, node = index.graph, index.graph.nodes[number]
        launch = graph.launches[node.launch] if node.launch >= 0 else None
        self._head(key_of(node), _kind(node), _sentence(node.why), change)
        self._show_facts([*_error_facts(error), *_node_facts(index, node, launch, ns)])
        arena = next((a for a in graph.arenas if a.device == node.device), None)
        self.arena.show_life(arena, node.life, graph.steps)
        if launch is not None:
            self._offer_sources(launch)
        if node.role == "":
            pin = Button(tr("Pin…"), lambda: self.pin_wanted.emit(number, _below(pin)), kind="flat")
            pin.setAccessibleName(tr("Pin {key_of} to a device", key_of=key_of(node)))
            _add(self._buttons, pin)
        self._buttons.addStretch(1)
        self._list(tr("Reads"), node.sources)
        self._list(tr("Read by"), index.readers.get(number, []))

    def show_launch(
        self,
        index: GraphIndex,
        number: int,
        ns: int | None,
        errors: Mapping[int, NodeError] = NOT_COMPARED,
    ) -> None:
        self._clear()
        self._index = index
        graph, launch = index.graph, index.graph.launches[number]
        nodes = [graph.nodes[i] for i in launch.nodes]
        made = (
            tr("computes {nodes} nodes in one launch", nodes=len(nodes)) if len(nodes) > 1 else ""
        )
        made = made or (tr("prepares the next operation") if not nodes else "")
        self._head(
            launch.op,
            tr("launch {number} of {launches}", number=number, launches=len(graph.launches) - 1),
            _sentence(made),
            "",
        )
        error = launch_errors(index, errors).get(number)
        device = (tr("Device"), launch.device)
        self._show_facts([*_error_facts(error), device, *_launch_facts(launch, ns)])
        arena = next((a for a in graph.arenas if a.device == launch.device), None)
        self.arena.show_life(arena, nodes[-1].life if nodes else -1, graph.steps)
        self._offer_sources(launch)
        self._buttons.addStretch(1)
        self._list(tr("Computes"), launch.nodes)

    def _head(self, title: str, kind: str, why: str, note: str) -> None:
        for widget, text in ((self.title, title), (self.kind, kind), (self.why, why)):
            widget.setText(text)
            widget.setVisible(bool(text))
        self.note.setText(note)
        self.note.setVisible(bool(note))

    def _show_facts(self, facts: Iterable[Fact]) -> None:
        for row, (name, text) in enumerate(facts):
            value = label(text, wrap=True)
            value.setAccessibleName(f"{name}: {text}")
            title = label(name, tone="quiet")
            self._facts.addWidget(title, row, 0, Qt.AlignmentFlag.AlignTop)
            self._facts.addWidget(value, row, 1)
            title.show()
            value.show()

    def _offer_sources(self, launch: LaunchNode) -> None:
        kernels = dict(zip(launch.kernels, launch.defines, strict=True))
        for kernel, defines in kernels.items():
            if kernel_source(kernel) is not None:
                text = (
                    tr("Source") if len(kernels) == 1 else tr("Source of {kernel}", kernel=kernel)
                )
                shown = partial(self.source_wanted.emit, kernel, defines)
                button = Button(
                    text, shown, kind="flat", name=tr("Source of {kernel}", kernel=kernel)
                )
                _add(self._buttons, button)

    def _list(self, title: str, numbers: Sequence[int]) -> None:
        assert self._index is not None
        if not numbers:
            return
        _add(self._links, label(title, tone="quiet"))
        for number in list(dict.fromkeys(numbers))[:MOST]:
            node = self._index.graph.nodes[number]
            text = f"{title_of(node)}  {node.dtype} {shape_text(node)}"
            if is_leaf(node) and node.role != "weight":
                _add(self._links, ElidedLabel(text, size="small"))
            else:
                name = f"{title}: {key_of(node)}"
                link = Button(text, partial(self.node_wanted.emit, number), "link", name=name)
                link.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
                _add(self._links, link)
        if len(numbers) > MOST:
            _add(
                self._links,
                label(tr("and {numbers} more", numbers=len(numbers) - MOST), tone="quiet"),
            )

    def _clear(self) -> None:
        for layout in (self._facts, self._links, self._buttons):
            while (item := layout.takeAt(0)) is not None:
                widget = item.widget()
                if widget is not None:
                    widget.hide()
                    widget.deleteLater()


class _Tall(QWidget):
    """As high as its wrapped words want at its width, which a scroll area does not request."""

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            layout = self.layout()
            if layout is not None and layout.hasHeightForWidth():
                self.setMinimumHeight(layout.totalHeightForWidth(self.width()))
        return handled


def _add(layout: QBoxLayout, widget: QWidget) -> None:
    """Add a widget and show it now, not in a turn of the loop to come."""
    layout.addWidget(widget)
    widget.show()


def summary(index: GraphIndex) -> str:
    """A whole graph in a sentence or two."""
    graph = index.graph
    copies = [c for split in graph.splits for c in split.copies if c.origin is not None]
    return tr(
        "{operations} in {launches} and {splits}; {copies} between devices. Select an operation to"
        " see why it runs on its device.",
        operations=_operations(len(index.computed)),
        launches=_launches(len(graph.launches)),
        splits=tr_n("{n} split", "{n} splits", len(graph.splits)),
        copies=tr_n("{n} copy", "{n} copies", len(copies)),
    )


def _operations(count: int) -> str:
    return tr_n("{n} operation", "{n} operations", count)


def _launches(count: int) -> str:
    return tr_n("{n} launch", "{n} launches", count)


def part_summary(index: GraphIndex, layer: int | None, device: str | None) -> tuple[str, str]:
    """What of a graph is a layer's, a device's, or both: a title and a sentence."""
    block = index.block_of_layer(layer) if layer is not None else None
    named = index.blocks[block].title.capitalize() if block is not None else ""
    title = tr(" on ").join(part for part in (named, device) if part)
    nodes = [index.graph.nodes[number] for number in index.computed]
    mine = [n for n in nodes if layer in (n.layer, None) and device in (n.device, None)]
    if not mine:
        return title, tr("This device runs nothing in this step.")
    devices = ", ".join(dict.fromkeys(node.device for node in mine))
    launches = len({node.launch for node in mine} - {-1})
    return title, tr(
        "{operations} in {launches} on {devices}.",
        operations=_operations(len(mine)),
        launches=_launches(launches),
        devices=devices,
    )


def _below(button: QWidget) -> QPoint:
    return button.mapToGlobal(button.rect().bottomLeft())


def _node_facts(
    index: GraphIndex, node: GraphNode, launch: LaunchNode | None, ns: int | None
) -> Iterable[Fact]:
    yield tr("Shape"), shape_text(node)
    yield tr("Type"), node.dtype
    yield tr("Size"), f"{kib(node.size)} KiB"
    yield tr("Device"), node.device
    yield tr("Device"), cause_words(node.cause)
    if node.split >= 0:
        yield tr("Split"), f"#{node.split} of {len(index.graph.splits)}"
    if launch is not None:
        others = [title_of(index.graph.nodes[n]) for n in launch.nodes]
        if len(others) > 1:
            yield tr("Fused"), tr("{others}: one kernel launch", others=", ".join(others))
        yield from _launch_facts(launch, ns)
    if node.life >= 0:
        arena = next((a for a in index.graph.arenas if a.device == node.device), None)
        yield tr("Memory"), describe_life(arena, node.life)
    elif launch is not None:
        yield tr("Memory"), tr("none: the result stays inside its launch")


def _launch_facts(launch: LaunchNode, ns: int | None) -> Iterable[Fact]:
    yield tr("Kernel"), ", ".join(launch.kernels)
    yield tr("Moves"), f"{kib(launch.bytes)} KiB"
    yield tr("Computes"), f"{grouped(launch.flops)} FLOP"
    if ns is not None:
        yield tr("Time"), tr("{ns} ms, measured", ns=milliseconds(ns))


def _error_facts(error: NodeError | None) -> Iterable[Fact]:
    if error is not None:
        where = (
            ""
            if error.own
            else tr(" in {result_key}, computed from it", result_key=result_key(error.row))
        )
        yield tr("Error"), f"{'! ' * error.deviates}{error_text(error.row)}{where}"


def _kind(node: GraphNode) -> str:
    return node.role if node.role else f"{node.op}, {node.dtype}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
