"""The engine as a library: load a model, generate, read its numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray

from engine.protocol import ChatMessage, Generate, Piece, Sampling
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from engine.settings import EngineOptions

P = ParamSpec("P")


class Model:
    """An open model with one conversation in its caches."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._sequence = Sequenced(loaded.stepper, loaded.viewer)

    def generate(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        sampling: Sampling | None = None,
    ) -> Iterator[str]:
        """Text of an answer as it comes: `prompt` is a text to continue, or chat messages."""
        chat = () if isinstance(prompt, str) else prompt
        request = Generate(
            0,
            messages=[ChatMessage(m["role"], m["content"]) for m in chat],
            prompt=prompt if isinstance(prompt, str) else None,
            sampling=sampling or Sampling(),
            max_tokens=max_tokens,
            stop=list(stop),
        )
        for event in generate(self.loaded, self._sequence, request, lambda: False):
            if isinstance(event, Piece) and event.text:
                yield event.text

    def logits(self, ids: Sequence[int]) -> Iterator[tuple[int, Logits]]:
        """(start, logits f32 [t, V]) for every position of a fresh context of these tokens."""
        self._sequence.items.clear()
        yield from self.loaded.stepper.all_logits(ids)
        self.loaded.stepper.forget(0)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A weight of the file, dequantised, in reversed (NumPy) shape."""
        return self.loaded.file.array(name)

    def close(self) -> None:
        """Free memory and release the device."""
        self.loaded.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _loading(options: Callable[P, EngineOptions]) -> Callable[Concatenate[str | Path, P], Model]:
    """The function whose arguments are a path and those of `options`."""

    def load(path: str | Path, /, *args: P.args, **kwargs: P.kwargs) -> Model:
        return Model(load_model(path, options(*args, **kwargs)))

    return load


load = _loading(EngineOptions)
"""Open a GGUF file: `load(path, ctx=2048)` takes the fields of `engine.settings.EngineOptions`."""
