"""The commands of the Token view."""

from app.views.token.token import TokenView
from app.widgets.commands import Command
from app.window.desk import Desk


def _has_word(w: Desk) -> bool:
    return w.bench.token.word is not None


TOKEN: tuple[Command[Desk], ...] = (
    Command(
        id="token.live",
        title="Inspect tokens live",
        words="follow watch",
        run=lambda w: w.bench.token.toggle_live(),
        menu="View",
        key="Ctrl+L",
        checked=lambda w: w.bench.token.live,
    ),
    Command(
        id="token.before",
        title="Inspect the previous token",
        run=lambda w: w.bench.token.step(-1),
        enabled=_has_word,
    ),
    Command(
        id="token.after",
        title="Inspect the next token",
        run=lambda w: w.bench.token.step(1),
        enabled=_has_word,
    ),
    Command(
        id="token.trial",
        title="Try without a layer or head…",
        words="ablate ablation edit layer head leave out intervene",
        run=lambda w: w.sheets.show_trial(),
        menu="Chat",
        key="Ctrl+Shift+Y",
        icon="sliders",
        enabled=lambda w: w.bench.session.model is not None,
    ),
    Command(
        id="token.text",
        title="Copy the token's details as text",
        run=lambda w: w.inspector.view(TokenView).copy_text(),
        enabled=_has_word,
    ),
)
