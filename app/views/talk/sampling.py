"""At hand above the composer: presets, system prompt, how tokens are drawn, and why so."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QComboBox, QInputDialog, QLineEdit, QPlainTextEdit, QWidget

from app.language import tr
from app.state.presets import BUILT_IN, SUGGESTED, OwnSampling, Preset
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.views.talk.settings import AnswerFormChoice, LimitsForm
from app.widgets.basics import Button, IconButton, label, set_height
from app.widgets.controls.number_slider import NAME, NumberSlider
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.popover import Popover
from app.widgets.tips import set_tip
from engine.protocol import Sampling

CUSTOM = tr("Custom")
SAVE_MS = 400

# Field of Sampling, name, help, the slider's range, the field's most, decimals, word for the least.
NUMBERS: tuple[tuple[str, str, str, float, float, float, int, str], ...] = (
    ("temperature", tr("Temperature"),
     tr("Higher is more random; 0 always picks the likeliest token"), 0, 2, 100, 2, ""),
    ("top_k", tr("Top k"), tr("Sample from the k likeliest tokens only"),
     0, 100, 1e6, 0, tr("off")),
    ("top_p", tr("Top p"), tr("Sample from the likeliest tokens that add up to p; 1 is off"),
     0, 1, 1, 2, ""),
    ("min_p", tr("Min p"),
     tr("Drop tokens less likely than this fraction of the likeliest token; 0 is off"),
     0, 1, 1, 2, tr("off")),
    ("repeat_penalty", tr("Repeat penalty"),
     tr("Above 1 makes repeated tokens less likely; 1 is off"), 0.5, 2, 100, 2, ""),
    ("frequency_penalty", tr("Frequency penalty"),
     tr("Lowers a token's logit each time it occurs; 0 is off"),
     -2, 2, 100, 2, ""),
    ("presence_penalty", tr("Presence penalty"),
     tr("Lowers a token's logit once it has occurred; 0 is off"),
     -2, 2, 100, 2, ""),
    ("penalty_last_n", tr("Penalty range"),
     tr("Number of recent tokens that penalties apply to; -1 is all"),
     -1, 1024, 1 << 20, 0, tr("all")),
)  # fmt: skip


def in_words(bench: Workbench) -> str:
    """The sampling in a few words, by its preset where a person chose one."""
    drawn = bench.chat.details.sampling
    name = preset_of(bench)
    words = (
        [tr("Temperature {temperature:g}", temperature=drawn.temperature)]
        if name in ("", SUGGESTED.name)
        else [preset_title(name)]
    )
    if drawn.seed is not None:
        words.append(tr("seed {seed}", seed=drawn.seed))
    if bench.chat.details.system:
        words.append(tr("system prompt"))
    if bench.chat.details.form:
        words.append(tr("structured"))
    return "  ·  ".join(words)


def preset_title(name: str) -> str:
    """Its name; of a built-in one in the language of the window."""
    return tr(name) if name in {preset.name for preset in BUILT_IN} else name


def preset_of(bench: Workbench) -> str:
    """The preset that draws as the chat does, if there is one; a seed makes no difference."""
    presets = bench.preferences.presets()
    return next((one.name for one in presets if bench.chat.details.has_preset(one)), "")


class SamplingPopover(Popover):
    """Every change holds from the next answer on."""

    def __init__(self, bench: Workbench, parent: QWidget) -> None:
        super().__init__(tr("Sampling and system prompt"), parent)
        self._bench, self._filling = bench, False
        self.presets = QComboBox()
        self.presets.setAccessibleName(tr("Preset"))
        self.presets.view().setAccessibleName(tr("Presets"))
        self.presets.activated.connect(self._choose_preset)
        self._keep = IconButton("plus", tr("Save as preset…"), self.keep_preset)
        self.remove_button = IconButton("trash", tr("Delete preset"), self._delete_preset)
        self.system = QPlainTextEdit()
        self.system.setAccessibleName(tr("System prompt"))
        self.system.setPlaceholderText(tr("Instructions sent before the chat"))
        self.system.setTabChangesFocus(True)
        set_height(self.system, 72)
        self.system.textChanged.connect(self._system_typed)
        self._soon = QTimer(self, singleShot=True, interval=SAVE_MS)
        self._soon.timeout.connect(self._save_system)
        self._offered = Button(tr("Use the system prompt from Ollama"), self._take_offered, "link")
        self.save_button = Button(
            tr("Save as default for this model"), bench.chat.details.save_for_model
        )
        self.forget_button = Button(
            tr("Reset saved default"), bench.chat.details.forget_saved, "flat"
        )
        self.numbers: dict[str, NumberSlider] = {}
        self.seed = QLineEdit()
        self.seed.setAccessibleName(tr("Seed"))
        self.seed.setPlaceholderText(tr("random"))
        self.seed.editingFinished.connect(self._seed_entered)
        self.form = AnswerFormChoice(bench)
        self.limits = LimitsForm(bench)
        self._lay_out()
        bench.chat.details.changed.connect(self._fill)
        self._fill()

    def open_above(self, place: QWidget) -> None:
        """Open it with what the chat has now."""
        self._fill()
        self.show_above(place)
        self.presets.setFocus()

    def keep_preset(self) -> None:
        """Give the sampling a name."""
        name, agreed = QInputDialog.getText(self, tr("Save as preset"), tr("Name"))
        if agreed and name.strip():
            self.save_as(name.strip())

    def save_as(self, name: str) -> None:
        """Keep sampling and system prompt under a name."""
        chat = self._bench.chat
        preset = Preset(
            name,
            OwnSampling(**structs.asdict(structs.replace(chat.details.sampling, seed=None))),
            chat.details.system or None,
        )
        self._bench.preferences.save_preset(preset)
        self._fill()

    def hideEvent(self, event: object) -> None:  # noqa: N802
        self._save_system()
        self.limits.save()
        self.form.save()

    def _lay_out(self) -> None:
        top = hbox((self.presets, 1), self._keep, self.remove_button, spacing=GRID // 2)
        column = vbox(
            top,
            _named(tr("System prompt"), self.system),
            self.system,
            (self._offered, Qt.AlignmentFlag.AlignLeft),
            on=self.inside,
            margins=(PADDING, PADDING - 4, PADDING, PADDING),
        )
        for field, name, help, low, high, most, decimals, off in NUMBERS:
            default = getattr(Sampling(), field)
            hint = tr(
                "{help}. From {low:g} to {most:g}, default {default:g}",
                help=help,
                low=low,
                most=most,
                default=default,
            )
            number = NumberSlider(name, hint, low, high, most, decimals, off, resets=True)
            number.changed.connect(self._setter(field, decimals))
            number.reset.connect(partial(self._reset, field))
            self.numbers[field] = number
            column.addWidget(number)
        seeds = hbox()
        name = _named(tr("Seed"), self.seed)
        name.setFixedWidth(fonts.px(NAME))
        hint = tr("Random seed; the same seed gives the same answer. Default: random")
        set_tip(name, hint)
        set_tip(self.seed, hint)
        self.seed.setAccessibleDescription(hint)
        seeds.setSpacing(GRID)
        seeds.addWidget(name)
        seeds.addWidget(self.seed, 1)
        seeds.addWidget(Button(tr("Random"), lambda: self._set(seed=None), name=tr("Random seed")))
        column.addLayout(seeds)
        kept = hbox(self.save_button, self.forget_button, STRETCH, spacing=GRID)
        column.addLayout(kept)
        column.addWidget(self.form)
        column.addWidget(self.limits)
        self.area.setWidget(self.inside)

    def _setter(self, field: str, decimals: int) -> Any:
        def set_number(value: float) -> None:
            self._set(**{field: value if decimals else round(value)})

        return set_number

    def _set(self, **fields: Any) -> None:
        if not self._filling:
            details = self._bench.chat.details
            details.set_sampling(structs.replace(details.own, **fields))

    def _reset(self, field: str) -> None:
        """The number is the model's again; the keyboard stays with it, as the button leaves."""
        self._bench.chat.details.reset_number(field)
        self.numbers[field].field.setFocus()

    def _fill(self) -> None:
        """Show what the chat has."""
        self._filling = True
        details = self._bench.chat.details
        drawn: Sampling = details.sampling
        for field, number in self.numbers.items():
            number.set_value(float(getattr(drawn, field)))
            self._show_origin(field, number)
        offered = details.suggested.system
        self._offered.setVisible(bool(offered) and details.system != offered)
        has_model = self._bench.session.path is not None
        self.save_button.setEnabled(has_model and bool(details.own.values.keys() - {"seed"}))
        self.forget_button.setVisible(bool(details.saved.values))
        seed = "" if drawn.seed is None else str(drawn.seed)
        if self.seed.text() != seed:
            self.seed.setText(seed)
        if (
            not self._soon.isActive()
            and self.system.toPlainText() != self._bench.chat.details.system
        ):
            self.system.setPlainText(self._bench.chat.details.system)
        names = [preset.name for preset in self._bench.preferences.presets()]
        now = preset_of(self._bench)
        self.presets.clear()
        if not now:
            self.presets.addItem(CUSTOM, "")
        for name in names:
            self.presets.addItem(preset_title(name), name)
        self.presets.setCurrentIndex(self.presets.findData(now))
        self.remove_button.setEnabled(bool(now) and now not in {preset.name for preset in BUILT_IN})
        self._filling = False

    def _show_origin(self, field: str, number: NumberSlider) -> None:
        """A number at Cutaway's own default has no line; one of a model says where it is from."""
        details = self._bench.chat.details
        default = details.drawn_with(OwnSampling())
        spoken = details.drawn.text(field)
        if getattr(details.own, field) is None and default.origins[field] == "saved":
            back = float(getattr(details.suggested.sampling, field))
            number.set_origin(spoken, spoken, back)
            return
        back = float(getattr(default.sampling, field))
        shown = "" if default.origins[field] == "program" else default.text(field)
        if shown and back != number.value:
            shown = tr("{origin}: {value}", origin=shown, value=number.text_of(back))
        number.set_origin(shown, spoken, back)

    def _choose_preset(self) -> None:
        name = self.presets.currentData()
        for preset in self._bench.preferences.presets():
            if preset.name == name:
                self._bench.chat.details.take_preset(preset)
        self._fill()

    def _take_offered(self) -> None:
        self._bench.chat.details.set_system(self._bench.chat.details.suggested.system)

    def _delete_preset(self) -> None:
        self._bench.preferences.delete_preset(self.presets.currentData())
        self._fill()

    def _system_typed(self) -> None:
        if not self._filling:
            self._soon.start()

    def _save_system(self) -> None:
        if self._soon.isActive():
            self._soon.stop()
            self._bench.chat.details.set_system(self.system.toPlainText())

    def _seed_entered(self) -> None:
        text = self.seed.text().strip()
        if not text:
            self._set(seed=None)
        elif text.isdecimal() and int(text) < 1 << 64:
            self._set(seed=int(text))
        self._fill()


def _named(name: str, field: QWidget) -> Any:
    made = label(name)
    made.setBuddy(field)
    return made
