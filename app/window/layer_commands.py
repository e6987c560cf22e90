"""The commands of the Layers page; its own keys are heard where the keyboard is in it."""

from collections.abc import Callable

from app.views.layers.layers import LayersView
from app.widgets.commands import Command
from app.window.desk import Desk

PAGE = "layers"


def _is_shown(w: Desk) -> bool:
    return w.inspector.tab == PAGE


def _command(
    id: str,
    title: str,
    run: Callable[[LayersView], object],
    enabled: Callable[[LayersView], bool],
    icon: str = "",
) -> Command[Desk]:
    return Command(
        id=f"layers.{id}",
        title=title,
        run=lambda w: run(w.inspector.view(LayersView)),
        menu="Layers",
        icon=icon,
        enabled=lambda w: _is_shown(w) and enabled(w.inspector.view(LayersView)),
    )


def _has_lanes(view: LayersView) -> bool:
    return bool(view.state.lanes())


LAYERS: tuple[Command[Desk], ...] = (
    _command("undo", "Undo the move", lambda v: v.state.undo(), lambda v: v.state.can_undo, "undo"),
    _command("redo", "Redo the move", lambda v: v.state.redo(), lambda v: v.state.can_redo, "redo"),
    _command(
        "automatic",
        "Automatic placement",
        lambda v: v.state.automatic(),
        lambda v: _has_lanes(v) and not v.state.is_automatic,
        "restart",
    ),
    _command("down", "Move to the next device", lambda v: v.chart.move_taken(1), _has_lanes),
    _command("up", "Move to the previous device", lambda v: v.chart.move_taken(-1), _has_lanes),
    _command(
        "boundary_on",
        "Move the boundary one layer down",
        lambda v: v.chart.move_boundary(1),
        _has_lanes,
    ),
    _command(
        "boundary_back",
        "Move the boundary one layer up",
        lambda v: v.chart.move_boundary(-1),
        _has_lanes,
    ),
    _command("open", "Open the layer", lambda v: v.chart.open(), _has_lanes),
    _command("row", "Select all layers of the device", lambda v: v.chart.choose_row(), _has_lanes),
    _command("measure", "Measure device speed", lambda v: v.state.measure(True), _has_lanes),
    _command(
        "rule", "Type a placement rule", lambda v: v.rule.field.setFocus(), _has_lanes, "edit"
    ),
    _command("place", "Copy as --place", lambda v: v.rule.copy_place(), _has_lanes, "copy"),
    _command(
        "llama_cpp", "Copy for llama.cpp", lambda v: v.rule.copy_llama_cpp(), _has_lanes, "copy"
    ),
    _command(
        "apply",
        "Apply the placement",
        lambda v: v.state.apply(),
        lambda v: not v.state.blocked(),
        "check",
    ),
)
