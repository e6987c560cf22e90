"""The model that is served: its names, what is known of it, and whether it can be asked now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.serve.web.refusal import Refusal, unavailable
from engine.protocol import FileContent, Loaded

State = Literal["loading", "ready", "down"]


@dataclass(frozen=True)
class OpenModel:
    """An open model by its `names`, the first of which it tells; `file` is what its file says."""

    names: tuple[str, ...]
    loaded: Loaded
    file: FileContent | None = None
    created: int = 0

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self.names[0]

    def meta(self, key: str) -> str:
        """A value of the file's metadata as text; "" where there is none."""
        rows = self.file.metadata if self.file is not None else ()
        return next((row.value for row in rows if row.key == key), "")


class Shelf:
    """Which model can be asked. Changed and read in the server's loop alone."""

    def __init__(self, any_model: bool = False) -> None:
        self.state: State = "loading"
        self.reason = ""
        self.model: OpenModel | None = None
        self._any = any_model

    def put(self, model: OpenModel) -> None:
        """This one answers from now on."""
        self.model, self.state, self.reason = model, "ready", ""

    def take(self, state: State, reason: str = "") -> None:
        """None answers."""
        self.state, self.reason = state, reason

    @property
    def ready(self) -> OpenModel:
        """The model. Raises `Refusal` where none can be asked."""
        if self.state == "ready" and self.model is not None:
            return self.model
        if self.state == "down":
            raise unavailable(f"the engine is down: {self.reason}", seconds=60)
        raise unavailable("Loading model")

    def named(self, name: str | None) -> OpenModel:
        """The model of a name, None being the one there is. Raises `Refusal`."""
        model = self.ready
        if name is None or self._any or plain(name) in map(plain, model.names):
            return model
        raise no_model(name, model.names)


def plain(name: str) -> str:
    """A name as it is compared: Ollama's clients add a tag."""
    return name.lower().removesuffix(":latest")


def no_model(name: str, names: Sequence[str]) -> Refusal:
    """Nothing goes by this name."""
    listed = ", ".join(names)
    shown = name if len(name) < 200 else f"{name[:200]}..."
    text = f"the model {shown!r} is not here; there is {listed}"
    return Refusal(404, text, param="model", code="model_not_found")
