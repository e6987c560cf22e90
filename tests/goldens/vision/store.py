"""The arrays of `NAME.npz`: weights, and cases with everything a test compares."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Seen:
    """One picture of a prompt.

    `picture` is uint8 [h, w, 3]; `views` uint8 [v, h, w, 3] is what the tower sees after resizing
    and cutting, in its order; `rows` float32 [n, E] is what transformers makes of the views (for
    mllama: the rows of the used tiles).
    """

    picture: np.ndarray
    views: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Case:
    """A prompt with its pictures.

    `parts` are those of the one message of a user: texts, and None for a picture. `ids` int32 [T]
    are those of the vocabulary, and -1 where a row of a picture stands (the rows of all pictures,
    in order). `logits` float32 [n, V]: those of the last n positions. `greedy` int32 [16] follows,
    each with the `margins` float32 [16] by which it led.
    """

    name: str
    parts: tuple[str | None, ...]
    seen: tuple[Seen, ...]
    ids: np.ndarray
    logits: np.ndarray
    greedy: np.ndarray
    margins: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """By their names in the file."""
        made = {"parts": np.array(json.dumps(self.parts)), "ids": self.ids, "logits": self.logits}
        made |= {"greedy": self.greedy, "margins": self.margins}
        for i, seen in enumerate(self.seen):
            made |= {f"{i}/{part}": getattr(seen, part) for part in ("picture", "views", "rows")}
        return {f"case/{self.name}/{name}": values for name, values in made.items()}


def load_state(family: str) -> dict[str, np.ndarray]:
    """Weights of a family: float16, by transformers' names."""
    with np.load(HERE / f"{family}.npz") as file:
        return {n.removeprefix("weight/"): file[n] for n in file if n.startswith("weight/")}


def load_cases(family: str) -> dict[str, Case]:
    """The cases of a family by name."""
    with np.load(HERE / f"{family}.npz") as file:
        names = dict.fromkeys(n.split("/")[1] for n in file if n.startswith("case/"))
        return {name: _case(file, name) for name in names}


def _case(file: np.lib.npyio.NpzFile, name: str) -> Case:
    head = f"case/{name}"
    count = sum(n.startswith(f"{head}/") and n.endswith("/picture") for n in file)
    seen = (
        Seen(*(file[f"{head}/{i}/{part}"] for part in ("picture", "views", "rows")))
        for i in range(count)
    )
    parts = tuple(json.loads(str(file[f"{head}/parts"])))
    arrays = (file[f"{head}/{part}"] for part in ("ids", "logits", "greedy", "margins"))
    return Case(name, parts, tuple(seen), *arrays)
