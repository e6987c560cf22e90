"""Costs of a placement before and after the edit (speed, splits, bytes between devices), whether it
fits, and the button that applies it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRectF, Qt
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from app.language import tr
from app.state.layers.lanes import HOST
from app.state.layers.layers import LayersState
from app.state.layers.words import crossing, rate, short_lane
from app.theme import fonts
from app.theme.devices import lettered
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.basics import Button, label, set_tone
from app.widgets.layouts import hbox, vbox
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper, flow, text_width
from app.widgets.tips import set_tip
from engine.protocol import Repriced

LINE = 22
NO_SPEED = tr("Speed unknown: measure the devices with this model first.")
NO_SPEED_HOST = tr("Speed unknown: some layers run on the host, the slow reference.")
ARROW = " → "


class Figure(NamedTuple):
    """A number with what it counts; `tone` says whether it became better."""

    number: str
    unit: str
    tone: str = "text"


class FiguresLine(Painted):
    """Figures one after another, in as many lines as they need."""

    def __init__(self) -> None:
        super().__init__(tr("Cost of the placement"), focus=False)
        self._figures: Sequence[Figure] = ()

    def in_words(self) -> str:
        return ", ".join(f"{figure.number} {figure.unit}" for figure in self._figures)

    def show_figures(self, figures: Sequence[Figure], tip: str = "") -> None:
        self._figures = figures
        set_tip(self, tip)
        self.changed()

    def tall(self) -> float:
        return max((area.bottom() for area in self._areas()), default=fonts.px(LINE))

    def _areas(self) -> list[QRectF]:
        widths, height = [_width(figure) for figure in self._figures], fonts.px(LINE)
        places = zip(widths, flow(widths, self.width()), strict=True)
        return [QRectF(left, line * height, width, height) for width, (left, line) in places]

    def draw(self, paper: Paper) -> None:
        now, strong = tokens(), fonts.strong()
        for figure, area in zip(self._figures, self._areas(), strict=True):
            paper.text(area, figure.number, tone=getattr(now, figure.tone), font=strong)
            taken = text_width(f"{figure.number} ", strong)
            paper.text(area.adjusted(taken, 0, 0, 0), figure.unit, tone=now.quiet)


def _width(figure: Figure) -> float:
    return text_width(f"{figure.number} ", fonts.strong()) + text_width(figure.unit) + 2


def figures_of(state: LayersState) -> list[Figure]:
    """Of the placement shown, with those of the file's own before them where they differ."""
    after, before = state.answer, state.base
    if after is None:
        return []
    if before is None or not state.is_edited:
        before = after
    splits = len(after.splits)
    return [
        Figure(
            _change(rate(_speed(before)), rate(_speed(after))),
            tr("tokens/s predicted"),
            _tone(_speed(before), _speed(after)),
        ),
        Figure(
            _change(str(len(before.splits)), str(splits)),
            tr("split") if splits == 1 else tr("splits"),
        ),
        Figure(
            _change(crossing(before.crossing), crossing(after.crossing)),
            tr("between devices per token"),
        ),
    ]


def speed_words(state: LayersState) -> str:
    """Where the predicted speed comes from, or why there is none."""
    answer = state.answer
    if answer is None:
        return ""
    if answer.speed is None:
        on_host = any(tile.device == HOST for tile in answer.tiles)
        return NO_SPEED_HOST if on_host else NO_SPEED
    spent = {**answer.speed.devices, "copies": answer.speed.copies, "host": answer.speed.host}
    parts = ", ".join(
        tr("{name} {ns:.2f} ms", name=name, ns=ns / 1000000.0) for name, ns in spent.items() if ns
    )
    return tr("A token takes {parts}. {source}", parts=parts, source=answer.speed.source)


def _speed(answer: Repriced) -> float | None:
    return answer.speed.tokens_per_s if answer.speed is not None else None


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before}{ARROW}{after}"


def _tone(before: float | None, after: float | None) -> str:
    if before is None or after is None or rate(before) == rate(after):
        return "text"
    return "good" if after > before else "warn"


class ApplyBar(QWidget):
    """Says in words what the lanes show, and why the button cannot be pressed where it cannot."""

    def __init__(self, state: LayersState) -> None:
        super().__init__()
        self._state = state
        self.caption = label(wrap=True)
        self.caption.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Progress of the move"))
        self.cancel = Button(tr("Cancel"), state.applying.cancel)
        self.button = Button(tr("Apply"), state.apply, "primary")
        row = hbox(
            (self.caption, 1),
            (self.cancel, Qt.AlignmentFlag.AlignBottom),
            (self.button, Qt.AlignmentFlag.AlignBottom),
            spacing=GRID,
        )
        vbox(self.bar, row, on=self, spacing=GRID // 2)

    def refresh(self) -> None:
        state, applying = self._state, self._state.applying
        text, tone = self._verdict()
        self.caption.setText(text)
        set_tone(self.caption, tone)
        self.bar.setVisible(applying.is_busy)
        self.bar.setRange(0, 1000 if applying.task.total else 0)  # bytes, beyond what Qt counts to
        self.bar.setValue(1000 * applying.task.done // max(1, applying.task.total))
        self.cancel.setVisible(applying.is_busy)
        moves = state.file is None or (state.file.is_open and not applying.needs_load)
        self.button.set_text(tr("Apply") if moves else tr("Load"))
        blocked = state.blocked()
        self.button.setEnabled(not blocked)
        set_tip(self.button, blocked or "Ctrl+Enter")

    def show_text(self, text: str) -> None:
        """Something else, until the placement changes."""
        self.caption.setText(text)
        set_tone(self.caption, "quiet")

    def _verdict(self) -> tuple[str, str]:
        state, applying = self._state, self._state.applying
        short = [short_lane(lane, lettered) for lane in state.lanes() if lane.over]
        if applying.is_busy:
            return tr("Uploading moved tensors …"), "quiet"
        if applying.result:
            return applying.result, "bad" if applying.failed else "good"
        if state.problem or state.measuring.problem:
            return state.problem or state.measuring.problem, "bad"
        if short:
            return tr(
                "It does not fit: {short}. Move layers to another device.", short=", ".join(short)
            ), "bad"
        if state.answer is not None and state.answer.problem:
            return tr("It does not fit: {problem}", problem=state.answer.problem), "bad"
        if state.pending:
            return tr("Estimating memory …"), "quiet"
        blocked = state.blocked()
        return tr("It fits. {blocked}", blocked=blocked).strip(), "quiet" if blocked else "good"
