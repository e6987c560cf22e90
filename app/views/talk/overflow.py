"""A warning before a question is sent that does not fit: how much is left out, and of what."""

from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.talk.settings.limits import WhenFullChoice
from app.widgets.basics import label, set_tone
from app.widgets.numbers import grouped

LOST = {
    "shift": "the oldest messages will be dropped",
    "middle": "the middle will be cut",
    "stop": "shorten it to send it",
}


class Overflow(QWidget):
    """Hidden where all fits."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.words = label("", "warn", "small", wrap=True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.choice = WhenFullChoice(bench)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self.words, 1)
        row.addWidget(self.choice)
        self.hide()

    @property
    def refuses(self) -> bool:
        """True if the message cannot be sent."""
        return not self.isHidden() and self._policy == "stop"

    def show_question(self, tokens: int | None) -> None:
        """Take the tokens of the question; None where unknown, or where nothing is written."""
        use = self._bench.chat.context
        needed = use.used + (tokens or 0)
        over = needed - (use.n_ctx - 1)  # one is for the answer
        self.setVisible(tokens is not None and use.n_ctx > 0 and over > 0)
        self.words.setText(
            f"{grouped(max(0, over))} token{'' if over == 1 else 's'} too long"
            f" for the context of {grouped(use.n_ctx)}: {LOST[self._policy]}."
        )
        set_tone(self.words, "bad" if self._policy == "stop" else "warn")

    @property
    def _policy(self) -> str:
        return self._bench.chat.details.limits.when_full
