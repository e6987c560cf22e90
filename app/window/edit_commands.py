"""The commands of the Edits menu: verbs of the selection, and the edits of the next answer."""

from collections.abc import Callable

from app.language import tr
from app.widgets.commands import Command
from app.window.desk import Desk
from app.window.panes.inspector import Inspector

VERBS = ("edits.off", "edits.scale", "edits.steer", "edits.take", "edits.causes")
"""What a menu of the selection offers."""


def _has_target(w: Desk) -> bool:
    return w.bench.verbs.target is not None


def _has_edits(w: Desk) -> bool:
    return bool(w.bench.chat.edits.value)


def _scale(w: Desk) -> None:
    """Add the edit, and open its form."""
    before = w.bench.chat.edits.value
    w.bench.verbs.scale()
    after = w.bench.chat.edits.value
    if after != before:
        w.panes.show_tab(Inspector.TALK)
        w.talk.composer.edits.open_form(len(after.edits) - 1)


def _control(w: Desk) -> None:
    parts = w.bench.token.parts
    if w.bench.trial.start_control(parts.n_head if parts is not None else None):
        w.sheets.show_trial()


def _command(
    id: str,
    title: str,
    run: Callable[[Desk], object],
    enabled: Callable[[Desk], bool],
    words: str = "",
    key: str = "",
    icon: str = "",
) -> Command[Desk]:
    return Command(
        id=f"edits.{id}",
        title=title,
        run=run,
        menu="Edits",
        key=key,
        icon=icon,
        words=words,
        enabled=enabled,
    )


EDITS: tuple[Command[Desk], ...] = (
    _command(
        "off",
        tr("Switch off the selection"),
        lambda w: w.bench.verbs.switch_off(),
        _has_target,
        words="ablate ablation remove layer head expert neuron zero",
        key="Ctrl+Alt+X",
    ),
    _command(
        "scale",
        tr("Scale the selection…"),
        _scale,
        _has_target,
        words="multiply factor stronger weaker layer head expert neuron",
        key="Ctrl+Alt+M",
    ),
    _command(
        "steer",
        tr("Steer with a vector…"),
        lambda w: w.sheets.show_steering(),
        lambda w: w.bench.session.model is not None,
        words="control vector direction activation addition gguf",
        key="Ctrl+Alt+V",
    ),
    _command(
        "take",
        tr("Take the selection from another answer…"),
        lambda w: w.sheets.show_taking(),
        lambda w: w.bench.verbs.can_take,
        words="patch patching activation swap copy",
        key="Ctrl+Alt+P",
    ),
    _command(
        "causes",
        tr("What causes this word?"),
        lambda w: w.bench.causes.begin(),
        lambda w: w.bench.causes.can_begin,
        words="why patching map causal tracing token reason",
        key="Ctrl+Alt+W",
    ),
    Command(
        id="edits.on",
        title=tr("Apply edits to the next answer"),
        words="switch toggle enable disable all",
        run=lambda w: w.bench.chat.edits.switch_all(not w.bench.chat.edits.value.on),
        menu="Edits",
        enabled=_has_edits,
        checked=lambda w: w.bench.chat.edits.value.on and _has_edits(w),
    ),
    _command(
        "compare",
        tr("Compare with and without edits…"),
        lambda w: w.sheets.show_trial(),
        lambda w: w.bench.session.model is not None,
        words="trial ablate ablation branch difference",
        key="Ctrl+Shift+Y",
        icon="compare",
    ),
    _command(
        "runs",
        tr("Runs: maps, quality, recordings, features…"),
        lambda w: w.sheets.show_runs(),
        lambda w: True,
        words="patching activation causal tracing map effect laboratory quantisation imatrix",
        key="Ctrl+Shift+R",
        icon="chart",
    ),
    _command(
        "control",
        tr("Answer with a random control"),
        _control,
        lambda w: w.talk.composer.edits.can_control,
        words="random vector baseline",
    ),
    _command(
        "undo",
        tr("Undo the edit"),
        lambda w: w.bench.chat.edits.undo(),
        lambda w: w.bench.chat.edits.can_undo,
        words="revert",
        key="Ctrl+Alt+Z",
        icon="undo",
    ),
    _command(
        "redo",
        tr("Redo the edit"),
        lambda w: w.bench.chat.edits.redo(),
        lambda w: w.bench.chat.edits.can_redo,
        words="repeat",
        key="Ctrl+Alt+Y",
        icon="redo",
    ),
    _command(
        "clear",
        tr("Remove all edits"),
        lambda w: w.bench.chat.edits.clear(),
        _has_edits,
        words="clear delete reset",
        icon="trash",
    ),
)
