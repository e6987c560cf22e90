"""The model that is served: its names, what is known of it, and whether it accepts requests now."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.serve.web.refusal import Refusal, unavailable
from engine.protocol import FileContent, Gives, Loaded, Sampling

State = Literal["loading", "ready", "down"]
SWITCH_SECONDS = 600.0
ABILITIES: dict[Gives, str] = {
    "text": "completion",
    "embeddings": "embedding",
    "scores": "rerank",
}


@dataclass(frozen=True)
class OpenModel:
    """An open model by its `names`, the first of which is its own; `file` is its file's content.

    `sampling` is for requests that leave fields out, by whether the model thinks; `stop` for those
    without stop strings.
    """

    names: tuple[str, ...]
    loaded: Loaded
    file: FileContent | None = None
    created: int = 0
    sampling: Mapping[bool, Sampling] = field(
        default_factory=lambda: {True: Sampling(), False: Sampling()}
    )
    stop: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model's name in responses."""
        return self.names[0]

    @property
    def can(self) -> list[str]:
        """Its abilities, in Ollama's words."""
        gives = self.loaded.gives
        return [word for what, word in ABILITIES.items() if what in gives]

    def goes_by(self, name: str) -> bool:
        """Return whether a client may use this name for the model."""
        return plain(name) in map(plain, self.names)

    def meta(self, key: str) -> str:
        """A value of the file's metadata as text; "" where there is none."""
        rows = self.file.metadata if self.file is not None else ()
        return next((row.value for row in rows if row.key == key), "")


class Shelf:
    """Which model accepts requests, and which could be in its place: `models`, by their names.
    `want` gets a name that a client requests. Changed and read in the server's loop alone.
    """

    def __init__(
        self,
        any_model: bool = False,
        models: Sequence[str] = (),
        want: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.state: State = "loading"
        self.reason = ""
        self.model: OpenModel | None = None
        self._any, self._models, self._want = any_model, tuple(models), want
        self._pending: str | None = None
        self._broken: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def others(self) -> list[str]:
        """The names of models that could be opened in place of this one."""
        return [name for name in self._models if not (self.model and self.model.goes_by(name))]

    def put(self, model: OpenModel) -> None:
        """This one answers from now on."""
        self.model, self.state, self.reason = model, "ready", ""
        self._change()

    def take(self, state: State, reason: str = "") -> None:
        """None answers."""
        self.state, self.reason = state, reason
        if state == "down":
            self._change()

    @property
    def ready(self) -> OpenModel:
        """The model. Raises `Refusal` where none accepts requests."""
        if self.state == "ready" and self.model is not None:
            return self.model
        if self.state == "down":
            raise unavailable(f"the engine is down: {self.reason}", seconds=60)
        raise unavailable("Loading model")

    def check(self) -> None:
        """Raise `Refusal` where no model accepts requests."""
        assert self.ready is not None

    async def open_model(self, name: str | None) -> OpenModel:
        """The model of a name, None being the one there is; one of the others is opened first, and
        a request for this one meanwhile waits until that has had its turn. Raises `Refusal`.
        """
        wanted = next(
            (m for m in self._models if name is not None and plain(m) == plain(name)), None
        )
        if wanted is None:
            return self._named(name)
        try:
            async with asyncio.timeout(SWITCH_SECONDS):
                while self._pending is not None or not self.ready.goes_by(wanted):
                    if wanted in self._broken:
                        raise unavailable(f"{wanted} could not be opened", seconds=60)
                    if self._pending is None:
                        self._pending = wanted
                        self._want(wanted)
                    await self._changed.wait()
        except TimeoutError:
            raise unavailable(f"{wanted} could not be opened in time") from None
        return self.ready

    def broken(self, name: str) -> None:
        """One of the others could not be opened, and is not tried again."""
        self._broken.add(name)

    def still(self, model: OpenModel) -> None:
        """Raise `Refusal` where another is in this one's place; it may itself have come back."""
        if self.model is None or self.model.names != model.names:
            raise unavailable("the model changed in the meantime; retry the request")

    def _named(self, name: str | None) -> OpenModel:
        model = self.ready
        if name is None or self._any or model.goes_by(name):
            return model
        raise no_model(name, [*model.names, *self.others])

    def _change(self) -> None:
        self._pending = None
        self._changed.set()
        self._changed = asyncio.Event()


def plain(name: str) -> str:
    """A name as it is compared: Ollama's clients add a tag."""
    return name.lower().removesuffix(":latest")


def no_model(name: str, names: Sequence[str]) -> Refusal:
    """Nothing goes by this name."""
    listed = ", ".join(names)
    shown = name if len(name) < 200 else f"{name[:200]}..."
    text = f"the model {shown!r} is not available; there is {listed}"
    return Refusal(404, text, param="model", code="model_not_found")
