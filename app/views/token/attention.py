"""Attention: a map of all layers and heads, steppers through them, and the sources they find."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.language import tr
from app.state.lab.causes import Causes
from app.state.selection import Selection
from app.state.token.question_maker import ModelParts
from app.state.token.readings import AttentionReading, Floats, Measure
from app.state.token.sources import Sources, WordSource
from app.state.token.token import TokenState
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix
from app.views.token.section import NumberStepper, percent, shown
from app.widgets.basics import label, set_height
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import UNKNOWN
from app.widgets.plots.bars import Bar, Bars
from app.widgets.plots.cells import grid_of, number_text
from app.widgets.plots.chart import Painted
from app.widgets.plots.heat_map import HeatMap
from app.widgets.plots.paper import Paper
from app.widgets.tips import set_tip
from app.widgets.tokens.lights import UNDERLINED, light_colour


class SourceLine(NamedTuple):
    """`strength` is how strongly its word is lit, None where nothing is lit for it."""

    text: str
    share: float
    strength: float | None


class SourceList(Bars):
    """Enter or a click picks a line. In two columns where there is room for them."""

    picked = Signal(int)  # the place of a line
    wide = columns_from = 190
    leading = 4

    def __init__(self) -> None:
        super().__init__(tr("Attention sources"))
        self.lines: Sequence[SourceLine] = ()

    def show_lines(self, lines: Sequence[SourceLine]) -> None:
        if list(lines) != list(self.lines):
            self.lines = lines
            self.changed()
            text = ", ".join(f"{line.text} {percent(line.share)}" for line in lines)
            self.setAccessibleDescription(text or self.in_words())

    def stops(self) -> int:
        return len(self.lines)

    def chosen(self) -> bool:
        self.picked.emit(self.at)
        return True

    def bars(self) -> list[Bar]:
        return [_bar(line) for line in self.lines]

    def in_words(self) -> str:
        if not self.lines:
            return tr("None yet")
        return tr(
            "{words}, {at} of {lines}",
            words=self.words(self.at),
            at=self.at + 1,
            lines=len(self.lines),
        )

    def words(self, at: int) -> str:
        return f"{self.lines[at].text} {percent(self.lines[at].share)}"

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(self.wide), self.sizeHint().height())


def _bar(line: SourceLine) -> Bar:
    now, strength = tokens(), line.strength
    shares = [(line.share, mix(now.quiet if strength is None else now.attention, now.panel, 0.7))]
    if strength is None:
        return Bar(line.text, shares, percent(line.share), tone=now.quiet)
    line_below = now.attention if strength >= UNDERLINED else ""
    lit = light_colour(strength)
    return Bar(line.text, shares, percent(line.share), lit=lit, underline=line_below)


MAP = 200  # pixels of the map's height
MEASURES: dict[Measure, tuple[str, str]] = {
    "entropy": (tr("Spread"), tr("Spread of each head's attention: entropy, in bits")),
    "distance": (tr("Distance"), tr("Average distance of each head's attention, in tokens")),
    "first": (
        tr("First token"),
        tr("Share of each head's attention on the first token (the attention sink)"),
    ),
}
EFFECT = (
    tr("Effect"),
    tr("Share of the answer that each head brings back, from a patching map of this word"),
)
SINK, TEMPLATE = tr("First token"), tr("Chat template")
ABOUT = {
    SINK: tr("the attention sink: heads attend to it when nothing else matters."),
    TEMPLATE: tr("tokens that the chat template adds around messages."),
}


class AttentionPanel(QWidget):
    """Shows `TokenState.inside.attention`. Layer and head are those of the selection."""

    place_wanted = Signal(int, int)  # a message and a place in its text
    picture_wanted = Signal(int)  # its number
    document_wanted = Signal(object, int)  # a document and a place in its text

    def __init__(self, state: TokenState, selection: Selection, causes: Causes) -> None:
        super().__init__()
        self._state, self._selection, self._causes = state, selection, causes
        self._measure: Measure = "entropy"
        self._by_effect = False
        self._shown: tuple[object, ...] = ()
        self._listed: list[WordSource | None] = []
        self.map = HeatMap(tr("Attention of all layers and heads"))
        self.map.pointed.connect(self._map_pointed)
        self.blank = BlankMap()
        self.layers = NumberStepper(tr("Layer"), tr("all"), tr("Average over layers"))
        self.heads = NumberStepper(tr("Head"), tr("all"), tr("Average over heads"))
        self.layers.stepped.connect(self._layer_stepped)
        self.heads.stepped.connect(self._head_stepped)
        self.caption = label("", "quiet", "small", wrap=True)
        self.list = SourceList()
        self.list.picked.connect(self._source_picked)
        self.choices = {measure: self._choice(measure) for measure in MEASURES}
        self.effect = _toggle(*EFFECT, partial(self._show_effects, True))
        self._lay_out()
        set_height(self.map, MAP)
        set_height(self.blank, MAP)

    def refresh(self) -> None:
        """Show what is known of the word now."""
        inside = self._state.inside
        attention = inside.attention if inside is not None else None
        self.effect.setEnabled(attention is not None and self._causes.can_begin)
        self._show_map(attention, self._state.parts)
        self._show_steppers(attention)
        self._show_sources(attention)

    def rows(self) -> list[list[str]]:
        """Of each layer and head all measures, titles on top."""
        inside = self._state.inside
        attention = inside.attention if inside is not None else None
        head = [tr("Layer"), tr("Head"), tr("Bits"), tr("Back"), tr("First"), tr("Effect")]
        if attention is None:
            return [head]
        effects = self._effects(attention)
        return [head] + [
            [
                *(str(layer), str(n)),
                *(f"{attention.maps[m][at, n]:.4g}" for m in MEASURES),
                "" if effects is None else _effect(effects[at, n]),
            ]
            for at, layer in enumerate(attention.layers)
            for n in range(attention.n_head)
        ]

    def source_rows(self) -> list[list[str]]:
        """The list of sources, titles on top."""
        return [
            [tr("Source"), tr("Share")],
            *([line.text, percent(line.share)] for line in self.list.lines),
        ]

    # Parts

    def _effects(self, attention: AttentionReading) -> Floats | None:
        """Effects [layers, heads] of a patching map of the word; NaN of what it has not."""
        found = self._causes.heads(self._state.word)
        if found is None:
            return None
        effects = np.full((len(attention.layers), attention.n_head), np.nan, np.float32)
        for layer, row in zip(*found, strict=True):
            if layer in attention.layers and len(row) <= attention.n_head:
                effects[attention.layers.index(layer), : len(row)] = row
        return effects

    def _show_map(self, attention: AttentionReading | None, parts: ModelParts | None) -> None:
        shape = (parts.n_layer, parts.n_head) if parts is not None else (0, 0)
        effects = None
        if self._by_effect and attention is not None:
            effects = self._effects(attention)
            self._by_effect = effects is not None
            self._check()
        key = None if effects is None else effects.tobytes()
        shown_now = attention, self._measure, shape, key
        if shown_now != self._shown:
            self._shown = shown_now
            if attention is not None:
                layers = attention.layers
                grid = grid_of(
                    attention.maps[self._measure] if effects is None else effects,
                    row_title="layer",
                    column_title="head",
                    row_name=lambda row: str(layers[row]),
                    text=number_text if effects is None else _effect,
                )
                self.map.is_diverging = effects is not None
                self.map.show_cells(grid, None if effects is None else (-1.0, 1.0))
            self.map.setVisible(attention is not None)
            self.blank.show_shape(shape)
            self.blank.setVisible(attention is None and parts is not None)
        layer, head = self._state.layer, self._state.head
        row = attention.layers.index(layer) if attention is not None and layer is not None else None
        self.map.frame_row(row)
        self.map.mark({(row, head): tr("selected")} if row is not None and head is not None else {})
        if row is not None:
            self.map.set_cursor(row, head if head is not None else self.map.at[1], scroll=False)

    def _show_steppers(self, attention: AttentionReading | None) -> None:
        for stepper in (self.layers, self.heads):
            stepper.setEnabled(attention is not None)
        layer, head = self._state.layer, self._state.head
        self.layers.show_value(None if layer is None else str(layer))
        self.heads.show_value(None if head is None else str(head))
        self.heads.setEnabled(attention is not None and layer is not None)

    def _show_sources(self, attention: AttentionReading | None) -> None:
        sources, inside, parts = self._state.sources, self._state.inside, self._state.parts
        if sources is None or inside is None or inside.context is None:
            self._listed = []
            self.list.show_lines(())
            self.caption.setText(self._waiting(attention, parts))
            return
        lines: list[SourceLine] = [SourceLine(SINK, sources.first, None)]
        self._listed = [None]
        if sources.in_template > 0:
            lines.append(SourceLine(TEMPLATE, sources.in_template, None))
            self._listed.append(None)
        for source in sources.listed():
            self._listed.append(source)
            lines.append(_line(source, sources))
        self.list.show_lines(lines)
        brightest = percent(sources.largest)
        self.caption.setText(
            tr(
                "{owner}. Brighter words received more: up to {brightest}.",
                owner=self._whose(),
                brightest=brightest,
            )
        )

    def _whose(self) -> str:
        layer, head = self._state.layer, self._state.head
        if layer is None:
            return tr("Attention, average of all heads and layers")
        who = tr("head {head}", head=head) if head is not None else tr("average of its heads")
        return tr("Attention of layer {layer}: {name}", layer=layer, name=who)

    def _waiting(self, attention: AttentionReading | None, parts: ModelParts | None) -> str:
        """What is to be seen here, as far as the file's header shows."""
        if attention is not None:
            return tr("Loading this layer's heads…")
        if parts is None:
            return tr("Tokens that each head attended to, highlighted in the chat.")
        window = (
            tr(", some limited to the last {window} tokens", window=parts.window)
            if parts.window
            else ""
        )
        return tr(
            "{n_layer} layers of {n_head} heads each{window}: which words they looked at."
            " They are lit in the chat.",
            n_layer=parts.n_layer,
            n_head=parts.n_head,
            window=window,
        )

    # What a person does

    def _choice(self, measure: Measure) -> QToolButton:
        button = _toggle(*MEASURES[measure], partial(self._show_measure, measure))
        button.setChecked(measure == self._measure)
        return button

    def _show_measure(self, measure: Measure) -> None:
        self._measure, self._by_effect = measure, False
        self._check()
        self.refresh()

    def _show_effects(self, by_effect: bool) -> None:
        """Show the effects of a patching map of the word; where there is none, begin one."""
        self._by_effect = by_effect and self._causes.heads(self._state.word) is not None
        self._check()
        if by_effect and not self._by_effect:
            self._causes.begin("heads")
        self.refresh()

    def _check(self) -> None:
        self.effect.setChecked(self._by_effect)
        for one, button in self.choices.items():
            button.setChecked(one == self._measure and not self._by_effect)

    def _map_pointed(self, row: int, column: int) -> None:
        inside = self._state.inside
        if inside is not None and inside.attention is not None:
            self._selection.select_head(inside.attention.layers[row], column)

    def _layer_stepped(self, by: int) -> None:
        inside = self._state.inside
        if inside is None or inside.attention is None:
            return
        layers, now, head = inside.attention.layers, self._state.layer, self._state.head
        at = layers.index(now) + by if now is not None else (0 if by > 0 else len(layers) - 1)
        if by == 0 or not 0 <= at < len(layers):
            self._selection.select_layer(None)
        elif head is not None:
            self._selection.select_head(layers[at], head)
        else:
            self._selection.select_layer(layers[at])

    def _head_stepped(self, by: int) -> None:
        inside, layer = self._state.inside, self._state.layer
        if inside is None or inside.attention is None or layer is None:
            return
        count, now = inside.attention.n_head, self._state.head
        at = now + by if now is not None else (0 if by > 0 else count - 1)
        if by == 0 or not 0 <= at < count:
            self._selection.select_layer(layer)
        else:
            self._selection.select_head(layer, at)

    def _source_picked(self, at: int) -> None:
        source = self._listed[at] if at < len(self._listed) else None
        if source is None:
            line = self.list.lines[at]
            self.caption.setText(f"{line.text}, {percent(line.share)}: {ABOUT[line.text]}")
        elif source.picture is not None:
            self.picture_wanted.emit(source.picture)
        elif source.part is not None and source.document is not None:
            self.document_wanted.emit(source.document, source.part.first)
        elif source.part is not None:
            self.place_wanted.emit(source.part.message, source.part.first)

    # Looks

    def _lay_out(self) -> None:
        choices = hbox(*self.choices.values(), self.effect, STRETCH, spacing=GRID // 2)
        steppers = hbox(self.layers, self.heads, STRETCH, spacing=2 * GRID)
        vbox(
            choices,
            self.map,
            self.blank,
            steppers,
            self.caption,
            self.list,
            STRETCH,
            on=self,
            spacing=GRID // 2,
        )


class BlankMap(Painted):
    """Layers and heads of a model that has not said anything yet."""

    def __init__(self) -> None:
        super().__init__(focus=False)
        self._shape = (0, 0)

    def show_shape(self, shape: tuple[int, int]) -> None:
        """So many layers, of so many heads each."""
        self._shape = shape
        self.update()

    def draw(self, paper: Paper) -> None:
        rows, columns = self._shape
        wide, tall = self.width() / max(columns, 1), self.height() / max(rows, 1)
        gap = 1 if min(wide, tall) > 3 else 0
        cells = [
            QRectF(column * wide, row * tall, wide - gap, tall - gap)
            for row in range(rows)
            for column in range(columns)
        ]
        with paper.sharp():
            paper.fills(cells, tokens().raised)


def _toggle(title: str, text: str, clicked: Callable[[], None]) -> QToolButton:
    """A choice of what the map shows."""
    button = QToolButton()
    button.setText(title)
    button.setCheckable(True)
    button.setAccessibleName(text)
    set_tip(button, text)
    button.clicked.connect(lambda: clicked())
    return button


def _effect(effect: float) -> str:
    return UNKNOWN if np.isnan(effect) else f"{effect:.2f}"


def _line(source: WordSource, sources: Sources) -> SourceLine:
    if source.picture is not None:
        return SourceLine(tr("Picture {picture}", picture=source.picture), source.share, None)
    strength = (source.share / sources.largest) ** 0.5 if sources.largest > 0 else 0.0
    text = shown(source.text)
    if source.document is not None and source.part is not None:
        text = f"{text}  {source.document.place(source.part.first)}"
    return SourceLine(text, source.share, strength)
