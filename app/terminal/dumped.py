"""Numbers of tensors as `cutaway dump` shows them: printed, as JSON, or in a file of NumPy's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.files import output
from app.terminal.text import plain, whole
from engine.errors import BadSetting
from engine.gguf.dump import dump
from engine.gguf.reader import GGUFFile
from engine.protocol import ResultPart

MOST_DECIMALS = 1100  # a double has no more


@dataclass(frozen=True)
class DumpForm:
    """How numbers are printed: decimals, and how many are shown, with or without gaps.

    Raises `BadSetting`.
    """

    precision: int
    threshold: int
    edge_items: int

    def __post_init__(self) -> None:
        if self.precision > MOST_DECIMALS:
            raise BadSetting("--precision", self.precision, f"0 to {MOST_DECIMALS}")
        if self.edge_items < 1:
            raise BadSetting("--edge-items", self.edge_items, "1 or more")

    def text(self, values: NDArray[Any]) -> str:
        """In brackets, the slowest dimension outermost."""
        return dump(
            values,
            precision=self.precision,
            threshold=self.threshold,
            edge_items=self.edge_items,
        )


class DumpedNumbers:
    """Collects dumped numbers, tensor by tensor; only what is wanted later is kept."""

    def __init__(self, form: DumpForm, prints: bool, keeps: bool) -> None:
        self.names: set[str] = set()
        self.rows: list[dict[str, Any]] = []
        self._form, self._prints, self._keeps = form, prints, keeps
        self._kept: dict[str, NDArray[np.float32]] = {}
        self._growing = np.empty(0, np.float32)

    def weight(self, file: GGUFFile, name: str) -> None:
        """A tensor of the file, dequantised."""
        info = file.tensors[name]
        about = {"name": name, "type": info.fmt.name, "dims": list(info.shape[: info.n_dims])}
        self._add(name, about, file.array(name))

    def part(self, part: ResultPart) -> None:
        """Elements of a result; a result's parts follow each other."""
        info = part.info
        if part.start == 0:
            self._growing = np.empty(int(np.prod(info.dims)), np.float32)
        values = np.frombuffer(part.data, "<f4")
        end = part.start + values.size
        self._growing[part.start : end] = values
        if end == self._growing.size:
            about = {
                "name": info.name,
                "occurrence": info.occurrence,
                "step": info.step,
                "op": info.op,
                "type": info.fmt,
                "dims": info.dims,
                "device": info.device,
            }
            key = f"{info.name}#{info.occurrence}@{info.step}"
            self._add(key, about, self._growing.reshape(info.dims[::-1]))

    def store(self, path: Path) -> None:
        """All of them, by their keys, float32. The file is whole or not there."""
        with output(path) as file:  # given a name, NumPy would add its ending
            np.savez(file, **self._kept)  # type: ignore[arg-type]

    def _add(self, key: str, about: dict[str, Any], values: NDArray[np.float32]) -> None:
        self.names.add(about["name"])
        if self._keeps:
            self._kept[key] = values
        if self._prints:
            shape = ", ".join(map(str, about["dims"]))
            words = [plain(key), *(about[k] for k in ("op", "device") if k in about)]
            whole(f"{' '.join(words)} {about['type']} [{shape}]\n{self._form.text(values)}\n")
        else:
            shown = values.size <= self._form.threshold
            numbers = values.tolist() if shown else None
            self.rows.append({"key": key, **about, **_statistics(values), "values": numbers})


def _statistics(values: NDArray[np.float32]) -> dict[str, float | int]:
    """Return statistics of the finite numbers, and the count of the others."""
    finite = values[np.isfinite(values)].astype(np.float64)
    known = finite if finite.size else np.zeros(1)
    return {
        "min": float(known.min()),
        "max": float(known.max()),
        "mean": float(known.mean()),
        "rms": float(np.sqrt((known**2).mean())),
        "nan": int(np.isnan(values).sum()),
        "inf": int(np.isinf(values).sum()),
    }
