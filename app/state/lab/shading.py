"""Values of kept runs that the Layers and Tensors views are shaded by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.language import decimal, tr, tr_n
from app.state.lab.runs import RunsState, effects_of
from engine.protocol import PatchesMapped, QualityMeasured

LayerShading = Literal["drift", "effect"]
LEAST = 1e-12
"""The least loss that has a colour of its own; a tensor that loses less is shown like it."""


@dataclass(frozen=True)
class Shade:
    """Values by layer or by a tensor's name, and between which a colour says how large one is.
    Effects are around 0; `is_small` ones are written with a power of ten. `title` names the value,
    `run` what was measured.
    """

    title: str
    run: str
    values: Mapping[int | str, float]
    low: float
    high: float
    is_small: bool = False
    is_log: bool = False

    @property
    def heading(self) -> str:
        """The value's name, and what was measured."""
        return f"{self.title}: {self.run}"

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and the highest value as texts."""
        return self.text(self.low), self.text(self.high)

    @property
    def is_diverging(self) -> bool:
        return self.low < 0

    def of(self, keys: Collection[int | str]) -> float | None:
        """The value that is farthest from 0 of these layers or tensors; None for none."""
        found = [self.values[key] for key in keys if key in self.values]
        return max(found, key=abs, default=None)

    def share(self, value: float) -> float:
        """Where a value is between the ends, from 0 to 1."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = (float(np.log10(max(one, LEAST))) for one in (low, high, value))
        return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)

    def text(self, value: float | None, short: bool = False) -> str:
        """A value as a text, as 1.5e-3 or 0.75, or `short` as 2e-3 or 0.8; "" for none."""
        if not value:
            return "" if value is None else "0"
        spec = (".1e", ".0e")[short] if self.is_small else (".2f", ".1f")[short]
        digits, _, power = format(value, spec).partition("e")
        return decimal(digits) + (f"e{int(power)}" if power else "")

    def words(self, keys: Collection[int | str]) -> str:
        """The value of these with its name; "" for none."""
        value = self.of(keys)
        return "" if value is None else f"{self.title} {self.text(value)}"


def drift_of(runs: RunsState, model: str) -> Shade | None:
    """The error of what leaves each layer, of the newest measurement of a model that has it."""
    found = runs.newest(QualityMeasured, model, "drift")
    if found is None:
        return None
    values: dict[int | str, float] = {one.layer: one.nmse for one in found.drift}
    return Shade("NMSE", title_of(found), values, 0.0, max(values.values()), is_small=True)


def effect_of(runs: RunsState, model: str) -> Shade | None:
    """The effect of each layer in the newest map of a model: at the last token where all of a
    layer was patched by position, otherwise the one farthest from 0.
    """
    found = runs.newest(PatchesMapped, model, "tables")
    if found is None:
        return None
    tables = [effects_of(found, at) for at in range(len(found.tables))]
    if found.grid == "residual":
        tables = [one[:, -1:] for one in tables]
    rows = np.concatenate([one for one in tables if one.size] or [np.zeros((0, 1), "f4")], axis=1)
    values: dict[int | str, float] = {}
    for layer, row in zip(found.layers, rows, strict=False):
        known = row[np.isfinite(row)]
        if known.size:
            values[layer] = float(known[np.argmax(np.abs(known))])
    last = found.grid == "residual"
    title = tr("Effect at the last token") if last else tr("Largest effect")
    run = tr("{right} against {wrong}", right=found.right[1].strip(), wrong=found.wrong[1].strip())
    return Shade(title, run, values, -1.0, 1.0) if values else None


def loss_of(runs: RunsState, model: str) -> Shade | None:
    """The error of each tensor's result to first order, of the newest measurement that has it."""
    found = runs.newest(QualityMeasured, model, "tensors")
    if found is None:
        return None
    values: dict[int | str, float] = {one.name: one.output_nmse for one in found.tensors}
    ends = min(values.values()), max(values.values())
    return Shade(tr("Loss"), title_of(found), values, *ends, is_small=True, is_log=True)


def title_of(found: QualityMeasured) -> str:
    """Return both names, or the one of the model with the number of its swapped tensors."""
    if n := found.n_swapped:
        return tr_n("{name}, {n} tensor swapped", "{name}, {n} tensors swapped", n, name=found.name)
    return tr("{name} against {base}", name=found.name, base=found.base_name)
