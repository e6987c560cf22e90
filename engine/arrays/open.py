"""Opens a file of arrays by its kind; what may run code when it is read is refused."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.arrays.safetensors import SafeTensors
from engine.errors import BadFile

Floats = NDArray[np.float32]
PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy.pkl")
MOST_NPZ = 2 << 30


class ArrayFile(Protocol):
    """Arrays by name."""

    path: Path
    metadata: dict[str, str]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array."""

    def array(self, name: str) -> Floats:
        """An array as float32."""


class NumpyFile:
    """An NPZ file without objects. Raises `BadFile`."""

    def __init__(self, path: Path) -> None:
        self.path, self.metadata = path, dict[str, str]()
        try:
            if path.stat().st_size > MOST_NPZ:
                raise BadFile(path, f"has more than {MOST_NPZ >> 30} GiB")
            with np.load(path, allow_pickle=False) as file:
                self._arrays = {name: np.asarray(file[name]) for name in file.files}
        except OSError as error:
            raise BadFile(path, f"cannot be read ({error.strerror or error})") from None
        except Exception as error:
            if isinstance(error, BadFile):
                raise
            raise BadFile(path, f"is not an NPZ file of plain arrays ({error})") from None
        for name, one in self._arrays.items():
            if one.dtype.kind not in "fiu":
                raise BadFile(path, f"{name!r} has type {one.dtype}, not numbers")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array."""
        return {name: one.shape for name, one in self._arrays.items()}

    def array(self, name: str) -> Floats:
        """An array as float32."""
        if name not in self._arrays:
            raise BadFile(self.path, f"has no array {name!r}")
        return self._arrays[name].astype(np.float32, copy=False)


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file that describes arrays. Raises `BadFile`."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(path, f"cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise BadFile(path, "is not a JSON object")
    return found


def open_arrays(path: str | PathLike[str]) -> ArrayFile:
    """Open safetensors or NPZ. Raises `BadFile` for all else, with the reason."""
    found = Path(path)
    suffix = found.suffix.lower()
    if suffix in PICKLED:
        raise BadFile(
            path,
            "is a pickle, which can run code when it is read; convert it once where torch is:"
            " load it with weights_only=True, save it with safetensors.torch.save_file",
        )
    if suffix == ".safetensors":
        return SafeTensors(found)
    if suffix == ".npz":
        return NumpyFile(found)
    raise BadFile(path, "is neither .safetensors nor .npz")
