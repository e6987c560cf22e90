"""The engine as a library: load a model, generate, read its numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from engine.errors import CannotSee
from engine.images.decode import from_array, from_image
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Edit,
    Generate,
    PicturePart,
    Piece,
    Sampling,
    TextPart,
)
from engine.runner.dump import ProbedStep, dump
from engine.runner.embed import embed
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, load_model
from engine.runner.pictures.album import read_picture
from engine.runner.rank import rank
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from engine.scheduler.probes import Probes
from engine.settings import EngineOptions

P = ParamSpec("P")
Image = str | Path | bytes | PIL.Image.Image | NDArray[np.uint8]
"""A file's path or its bytes, a Pillow image, or an array u8 [h, w], [h, w, 3] or [h, w, 4]."""


class Model:
    """An open model with one conversation in its caches."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.conversation = Sequenced(loaded.stepper, loaded.viewer)

    def generate(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        sampling: Sampling | None = None,
        images: Sequence[Image] = (),
        form: AnswerForm | None = None,
        edits: Sequence[Edit] = (),
        lora: Mapping[int, float] | None = None,
    ) -> Iterator[str]:
        """Text of an answer as it comes, held to a `form` where one is given: `prompt` is a text to
        continue, or chat messages. With `edits` the model's results are changed while it writes;
        `lora` are scales of its adapters by number, for this answer alone.

        Images stand before what the last message says; with them a text is a message too. Raises
        `CannotSee` where nothing makes the model see, `BadPicture`, and as `runner.generate`.
        """
        text, messages = self.prompt_of(prompt, images)
        request = Generate(
            0,
            messages=messages,
            prompt=text,
            sampling=sampling or Sampling(),
            max_tokens=max_tokens,
            stop=list(stop),
            form=form,
            edits=list(edits),
            lora=None if lora is None else dict(lora),
        )
        for event in generate(self.loaded, self.conversation, request, lambda: False):
            if isinstance(event, Piece) and event.text:
                yield event.text

    def dump(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *tensors: str,
        steps: int = 0,
        images: Sequence[Image] = (),
        edits: Sequence[Edit] = (),
    ) -> dict[str, NDArray[np.float32]]:
        """Results while a prompt is computed in an empty context, and `steps` greedy tokens behind
        it: f32 arrays in reversed (NumPy) shape, by `name#occurrence@step`.

        `tensors` are regular expressions that whole names match: `l_out-3`, `Qcur-.*`. A step is a
        part of the prompt or a token. An edited result has another one beside it,
        `l_out_edited-3`. Raises as `runner.dump.dump`.
        """
        text, messages = self.prompt_of(prompt, images)
        probes = Probes(tensors)
        arguments = (self.loaded, self.conversation, probes, messages, text, steps)
        found = dump(*arguments, edits=edits)
        computed = [step for step in found if isinstance(step, ProbedStep)]
        return {
            f"{one.key.name}#{one.key.occurrence}@{number}": one.values
            for number, step in enumerate(computed)
            for one in step.results
        }

    def prompt_of(
        self, prompt: str | Sequence[Mapping[str, str]], images: Sequence[Image]
    ) -> tuple[str | None, list[ChatMessage]]:
        """A text to continue, or messages, the last one with the images."""
        if isinstance(prompt, str) and not images:
            return prompt, []
        chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        messages = [ChatMessage(m["role"], m["content"]) for m in chat]
        if images and messages:
            parts: list[TextPart | PicturePart] = [self._sent(image) for image in images]
            parts.append(TextPart(messages[-1].text))
            messages[-1] = ChatMessage(messages[-1].role, parts)
        return None, messages

    def _sent(self, image: Image) -> PicturePart:
        """A picture that the model holds from now on."""
        viewer = self.loaded.viewer
        if viewer is None:
            raise CannotSee
        if isinstance(image, str | Path):
            return PicturePart(viewer.album.put(read_picture(image), str(image)).digest)
        if isinstance(image, bytes):
            return PicturePart(viewer.album.put(image).digest)
        picture = from_array(image) if isinstance(image, np.ndarray) else from_image(image)
        viewer.album.put_pixels(picture)
        return PicturePart(picture.digest)

    def logits(self, ids: Sequence[int]) -> Iterator[tuple[int, Logits]]:
        """(start, logits f32 [t, V]) for every position of a fresh context of these tokens."""
        self.conversation.items.clear()
        yield from self.loaded.stepper.all_logits(ids)
        self.loaded.stepper.forget(0)

    def embed(
        self, texts: Sequence[str], width: int | None = None, normalized: bool = True
    ) -> NDArray[np.float32]:
        """f32 [texts, width]: the embedding of each text, as `runner.embed.embed`, which also says
        what is raised. The conversation is forgotten.
        """
        self.conversation.items.clear()
        found = embed(self.loaded, texts, width, normalized)
        return np.stack([one.vector for one in found])

    def scale_adapters(self, *scales: float) -> None:
        """Scale the adapters that it was opened with (`lora`), all of them in order; 0 turns one
        off. The conversation is forgotten. Raises `BadSetting`.
        """
        self.loaded.scale_adapters(scales)
        self.conversation.clear()

    def rank(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """f32 [texts]: how well each text fits the query, as `runner.rank.rank`, which also says
        what is raised. The conversation is forgotten.
        """
        self.conversation.items.clear()
        found = rank(self.loaded, query, texts)
        return np.array([one.score for one in found], np.float32)

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
        return Model(load_model(path, options(*args, **kwargs), embeds=True))

    return load


load = _loading(EngineOptions)
"""Open a GGUF file: `load(path, ctx=2048)` takes the fields of `engine.settings.EngineOptions`."""
