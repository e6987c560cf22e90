"""Load options: device, context and cache type, with the memory they need."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QFormLayout, QLabel, QSizePolicy, QWidget

from app.language import tr
from app.library import Stored
from app.state.memory.totals import cells, pools
from app.state.wanted import adapter_title
from app.state.workbench import Workbench
from app.theme.icons import pixmap
from app.theme.theme import tokens
from app.theme.tokens import GRID, PADDING
from app.views.memory.bar import PoolBars
from app.views.models.devices import DevicesChoice
from app.widgets.basics import Button, label, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import file_size, grouped, mib
from engine.protocol import Devices, PredictedMemory
from engine.settings import ACTIVATION_BITS, KV_TYPES, MOST_SCALE, EngineOptions

CONTEXTS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
COST = tr(
    "8-bit activations: CPUs read prompts faster; about 1 in 40 top tokens changes"
    " (12 bits: 1 in 400)."
)
LONG_CONTEXT = 4096  # tokens, where the engine chooses
WAIT_MS = 150  # after the last change, before the request


class OptionsView(QWidget):
    """A stored model: whether it fits, first; its context; all else below Advanced. What is chosen
    is kept with the model when it is loaded. `footer` has the buttons, always in sight.
    """

    loading = Signal()
    report_wanted = Signal()  # on the devices
    placing = Signal()  # its layers are placed on their page

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._model: Stored | None = None
        self._tight = self._readable = False
        self._planned_for: tuple[Path, EngineOptions] | None = None
        self._name = ElidedLabel(size="strong")
        self.caption = label(tone="quiet", wrap=True)
        self.devices = DevicesChoice()
        self.devices.changed.connect(self._changed)
        self.report = Button(tr("Device report…"), self.report_wanted.emit, "link")
        self.place_layers = Button(tr("Choose a device for each layer…"), self._place, "link")
        self.context = _combo(tr("Context length in tokens"), self._changed)
        self.cache = _combo(tr("KV cache type"), self._changed)
        self.activations = _combo(tr("Activation bits"), self._changed)
        self.cost = label(COST, "quiet", wrap=True)
        self.adapters = _combo(tr("LoRA adapter"), self._changed)
        self.scale = _scale(self._changed)
        self._first, self._rows = _form(((tr("Context"), self.context),))
        self._form, self._rows = _form(
            (
                (tr("Adapter"), self.adapters),
                (tr("Adapter scale"), self.scale),
                (tr("Devices"), self.devices),
                ("", self.report),
                (tr("Layers"), self.place_layers),
                (tr("KV cache"), self.cache),
                (tr("Activations"), self.activations),
                ("", self.cost),
            )
        )
        self._bars = PoolBars()
        self._mark = QLabel()
        self.fits = label(wrap=True)
        self.smaller = Button(tr("Use a smaller context"), self._use_smaller)
        self.advanced = Button(tr("Advanced"), self._fold, "link")
        self._inside = QWidget()
        self.load = Button(tr("Load"), self._load, "primary")
        self.unload = Button(tr("Unload"), bench.session.unload)
        self.footer = QWidget()
        self._lay_out()
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._plan)
        bench.client.on(Devices, self._show_devices)
        bench.memory.prediction_changed.connect(self._show_prediction)
        bench.session.changed.connect(self._show_buttons)
        bench.session.changed.connect(self._show_prediction)
        self._fill()
        self._show_fold()
        self.show_model(None)

    def _lay_out(self) -> None:
        self._mark.setFixedSize(18, 18)
        self.fits.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        verdict = hbox((self._mark, Qt.AlignmentFlag.AlignTop), (self.fits, 1), spacing=GRID)
        vbox(self._form, GRID, self._bars, on=self._inside, spacing=6)
        hbox(
            STRETCH, self.unload, self.load, on=self.footer, margins=(PADDING, GRID, PADDING, GRID)
        )
        vbox(
            self._name,
            self.caption,
            verdict,
            (self.smaller, Qt.AlignmentFlag.AlignLeft),
            self._first,
            (self.advanced, Qt.AlignmentFlag.AlignLeft),
            self._inside,
            STRETCH,
            on=self,
            margins=PADDING,
        )

    def show_model(self, model: Stored | None) -> None:
        """The options that were chosen for it before."""
        self._model = model
        self._readable = model is not None and model.is_model
        self._show_fold()
        self._name.setText(model.name if model is not None else "")
        if model is None:
            self.caption.setText(tr("Choose a model to see the memory it needs."))
        else:
            kind = f"{model.architecture or tr('unknown')} · {model.quantization or tr('unknown')}"
            files = tr(" · {paths} files", paths=len(model.paths)) if len(model.paths) > 1 else ""
            self.caption.setText(
                model.problem
                or (model.is_adapter and _of_adapter(model))
                or tr("{kind} · {size}{files}", kind=kind, size=file_size(model.size), files=files)
            )
            kept = self._bench.options_for(model.paths[0])
            self.devices.choose(kept.device, kept.place)
            self._offer_contexts(model.n_ctx)
            wanted, trained = kept.ctx, model.n_ctx
            _choose(self.context, min(wanted, trained) if wanted and trained else wanted)
            _choose(self.cache, kept.kv)
            _choose(self.activations, kept.activations)
            self._offer_adapters(model, kept.lora)
            self._show_cost()
            self._show_scale()
        set_tone(self.caption, "bad" if model is not None and model.problem else "quiet")
        self._planned_for = None
        self._show_prediction()
        self._show_buttons()
        self._plan()

    def options(self) -> EngineOptions:
        """The current choice."""
        return self._bench.options_of(
            device=self.devices.device,
            place=self.devices.place.text().strip(),
            ctx=self.context.currentData(),
            kv=self.cache.currentData(),
            activations=self.activations.currentData(),
            lora=self._lora(),
        )

    def _fill(self) -> None:
        self._offer_contexts(None)
        for kind in KV_TYPES:
            self.cache.addItem(kind, kind)
        for bits in ACTIVATION_BITS:
            self.activations.addItem(tr("{bits} bits", bits=bits), bits)

    def _offer_contexts(self, n_ctx: int | None) -> None:
        """Offer contexts up to the one the model was trained with (None: unknown)."""
        self.context.clear()
        self.context.addItem(tr("Automatic"), None)
        for count in CONTEXTS:
            if n_ctx is None or count < n_ctx:
                self.context.addItem(tr("{count} tokens", count=grouped(count)), count)
        if n_ctx is not None:
            self.context.addItem(
                tr("{n_ctx} tokens, the model's maximum", n_ctx=grouped(n_ctx)), n_ctx
            )

    def _lora(self) -> dict[str, float]:
        """The chosen adapters: a single one with the scale beside it."""
        lora = dict(self.adapters.currentData() or ())
        return dict.fromkeys(lora, self.scale.value()) if len(lora) == 1 else lora

    def _offer_adapters(self, model: Stored, kept: Mapping[str, float]) -> None:
        """Offer the adapters on the disk for such a model, and what it was opened with last."""
        self.adapters.clear()
        self.adapters.addItem(tr("None"), ())
        if kept:
            self.adapters.addItem(", ".join(map(adapter_title, kept)), tuple(kept.items()))
        for one in self._bench.library.models:
            path = str(one.paths[0]) if one.paths else ""
            fits = one.is_adapter and not one.problem and one.architecture == model.architecture
            if fits and [path] != [*kept]:
                self.adapters.addItem(one.name, ((path, 1.0),))
        self.adapters.setCurrentIndex(int(bool(kept)))
        with QSignalBlocker(self.scale):
            self.scale.setValue(next(iter(kept.values()), 1.0))
        self._rows.setRowVisible(self.adapters, self.adapters.count() > 1)

    def _show_scale(self) -> None:
        chosen = self.adapters.currentData() or ()
        self._rows.setRowVisible(self.scale, len(chosen) == 1)

    def _show_devices(self, devices: Devices) -> None:
        self.devices.show_devices(devices.devices)

    def _show_cost(self) -> None:
        self._rows.setRowVisible(self.cost, self.activations.currentData() == 8)

    def _changed(self) -> None:
        self._show_cost()
        self._show_scale()
        self._show_prediction()
        self._soon.start()

    def _plan(self) -> None:
        if self._model is not None and self._model.is_model:
            wanted = (self._model.paths[0], self.options())
            if wanted != self._planned_for and self.isVisible():
                self._planned_for = wanted
                self._bench.memory.predict(*wanted)
                self._show_prediction()

    def showEvent(self, event: object) -> None:  # noqa: N802
        super().showEvent(event)  # type: ignore[arg-type]
        self._planned_for = None
        self._plan()

    def _show_prediction(self) -> None:
        memory, model = self._bench.memory.predicted, self._model
        sums = []
        fresh = model is not None and self._planned_for == (model.paths[0], self.options())
        if model is None or not model.is_model:
            picture, tone, text = "", "quiet", ""
        elif memory is not None and fresh:
            sums = pools(cells(memory, {}), memory.pools)
            picture, tone, text = _verdict(memory)
        elif fresh and self._bench.memory.prediction_problem:
            picture, tone, text = "error", "bad", self._bench.memory.prediction_problem
        elif self._bench.session.status == "answering":  # the engine does one thing at a time
            picture, tone = "info", "quiet"
            text = tr("Memory is estimated after the current answer.")
        else:
            picture, tone, text = "info", "quiet", tr("Estimating memory …")
        self._bars.show_sums(sums)
        self.fits.setText(text)
        self._tight = tone == "bad"
        self._show_buttons()
        set_tone(self.fits, tone)
        if picture:
            colour = getattr(tokens(), tone)
            self._mark.setPixmap(pixmap(picture, colour, 18, self.devicePixelRatioF()))
        self._mark.setVisible(bool(picture))
        self.smaller.setVisible(self._tight and memory is not None and self._smaller() >= 0)

    def _show_buttons(self) -> None:
        session, model = self._bench.session, self._model
        mine = model is not None and session.path in model.paths
        possible = model is not None and model.is_model
        self.load.setEnabled(possible)
        self.place_layers.setEnabled(possible)
        words = tr("Reload") if mine and session.model is not None else tr("Load")
        self.load.set_text(tr("Load anyway") if self._tight else words)
        self.unload.setVisible(mine and session.model is not None)

    def _fold(self) -> None:
        """Show what is below Advanced, or hide it; kept for the next time."""
        kept = self._bench.preferences.value.window
        shown = msgspec.structs.replace(kept, advanced_shown=not kept.advanced_shown)
        self._bench.preferences.update(window=shown)
        self._show_fold()

    def _show_fold(self) -> None:
        open_ = self._bench.preferences.value.window.advanced_shown
        self.advanced.set_text(
            tr("Hide advanced") if open_ else tr("Advanced: devices, layers, cache")
        )
        self.advanced.setVisible(self._readable)
        self._first.setVisible(self._readable)
        self._inside.setVisible(self._readable and open_)

    def _smaller(self) -> int:
        """The place of the next smaller context; -1 where there is none."""
        now = self.context.currentData()
        sizes = [self.context.itemData(i) for i in range(self.context.count())]
        less = [n for n in sizes if n is not None and n < (now or LONG_CONTEXT)]
        return sizes.index(max(less)) if less else -1

    def _use_smaller(self) -> None:
        self.context.setCurrentIndex(self._smaller())
        self._changed()

    def _place(self) -> None:
        if self._model is not None:
            self._bench.layers.look_at(self._model.paths[0], self.options())
            self._bench.selection.show_in("layers")
            self.placing.emit()

    def _load(self) -> None:
        if self._model is not None:
            self._bench.open_model(str(self._model.paths[0]), self.options())
            self.loading.emit()


def _of_adapter(model: Stored) -> str:
    """The next step for an adapter, which does not open by itself."""
    return tr(
        "A LoRA adapter for {model}. Choose such a model here and set its adapter below Advanced,"
        " or drop this file into the window while the model is open.",
        model=model.adapts or model.architecture,
    )


def _verdict(memory: PredictedMemory) -> tuple[str, str, str]:
    """Picture, tone and words: whether it fits, with the numbers."""
    wanted = sum(row.size for row in memory.rows if row.status == "planned")
    if memory.fits:
        left = min((pool.limit - pool.used for pool in memory.pools), default=0)
        text = tr("Fits: {wanted} MiB needed, {left} MiB free.", wanted=mib(wanted), left=mib(left))
        if memory.tokens_per_s is not None:
            text += tr(
                " About {tokens_per_s:.3g} tokens per second.", tokens_per_s=memory.tokens_per_s
            )
        return "check", "good", text
    words = tr(
        "Does not fit: {wanted} MiB needed, {shortfall} MiB too much.",
        wanted=mib(wanted),
        shortfall=mib(memory.shortfall),
    )
    return "error", "bad", tr("{words} Choose a smaller context or another device.", words=words)


def _form(rows: Iterable[tuple[str, QWidget]]) -> tuple[QWidget, QFormLayout]:
    """A form of named fields."""
    made = QWidget()
    form = QFormLayout(made)
    form.setContentsMargins(0, GRID, 0, 0)
    form.setHorizontalSpacing(2 * GRID)
    form.setVerticalSpacing(GRID)
    form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    for text, box in rows:
        form.addRow(label(text, "quiet"), box)
    return made, form


def _scale(changed: Callable[[], None]) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setAccessibleName(tr("Adapter scale"))
    box.setRange(-MOST_SCALE, MOST_SCALE)
    box.setSingleStep(0.05)
    box.setKeyboardTracking(False)
    box.valueChanged.connect(lambda _: changed())
    return box


def _combo(name: str, changed: object) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setMinimumContentsLength(12)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    assert callable(changed)
    box.activated.connect(lambda _: changed())
    return box


def _choose(box: QComboBox, value: object) -> None:
    """Choose a value; one that the list lacks is added, so that it is not lost."""
    at = box.findData(value)
    if at < 0:
        box.addItem(str(value), value)
        at = box.count() - 1
    box.setCurrentIndex(at)
