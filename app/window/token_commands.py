"""The commands of the Token view."""

from app.views.token.token import TokenView
from app.widgets.commands import Command
from app.window.desk import Desk


def _has_word(w: Desk) -> bool:
    return w.bench.token.word is not None


TOKEN: tuple[Command[Desk], ...] = (
    Command(
        id="token.live",
        title="Look into answers while they are written",
        words="follow watch",
        run=lambda w: w.bench.token.toggle_live(),
        menu="View",
        key="Ctrl+L",
        checked=lambda w: w.bench.token.live,
    ),
    Command(
        id="token.before",
        title="Look at the word before",
        run=lambda w: w.bench.token.step(-1),
        enabled=_has_word,
    ),
    Command(
        id="token.after",
        title="Look at the next word",
        run=lambda w: w.bench.token.step(1),
        enabled=_has_word,
    ),
    Command(
        id="token.trial",
        title="Try a change…",
        words="ablate ablation edit layer head leave out intervene",
        run=lambda w: w.sheets.show_trial(),
        menu="Chat",
        key="Ctrl+Shift+Y",
        icon="sliders",
        enabled=lambda w: w.bench.session.model is not None,
    ),
    Command(
        id="token.text",
        title="Copy how the word came to be as text",
        run=lambda w: w.inspector.view(TokenView).copy_text(),
        enabled=_has_word,
    ),
)
