"""Embeddings of a server: `/embeddings` of the OpenAI interface."""

import httpx2
import msgspec
import numpy as np
from numpy.typing import NDArray

from app.remote.link import MOST_BODY
from app.remote.problems import ServerFailed, no_interface, unreachable
from app.remote.remote_answer import UNREADABLE, OpenedModel
from engine.errors import BadSetting, NotSupported
from engine.protocol import Embed, Embedded

AT_ONCE = 64  # texts of one question
LARGEST = float(np.finfo(np.float32).max)
"""Embeddings are of 32 bits; what is larger would make a length without end."""


class ServedVector(msgspec.Struct, frozen=True):
    """The embedding of the text at `index`."""

    index: int
    embedding: list[float]


class ServedVectors(msgspec.Struct, frozen=True):
    """The server's response."""

    data: list[ServedVector]


_read = msgspec.json.Decoder(ServedVectors).decode


async def embedded(opened: OpenedModel, request: Embed) -> Embedded:
    """Vectors of length 1, cut here where only the first numbers are wanted. How many tokens each
    text has is unknown, so that is 0. Raises ServerFailed, BadSetting, NotSupported.
    """
    if not request.normalized:
        raise NotSupported("embeddings without normalisation (--raw) from a server")
    rows = [await _some(opened, some) for some in _parts(request.texts)]
    if len({row.shape[1] for row in rows}) != 1:
        raise ServerFailed(opened.link.to.name, "its embeddings differ in length")
    vectors = np.concatenate(rows)
    width = vectors.shape[1] if request.width is None else request.width
    if not 1 <= width <= vectors.shape[1]:
        raise BadSetting("width", width, f"a number from 1 to {vectors.shape[1]}")
    vectors = vectors[:, :width]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(lengths > 0, lengths, 1)
    return Embedded(request.id, width, vectors.astype("<f4").tobytes(), [0] * len(vectors))


def _parts(texts: list[str]) -> list[list[str]]:
    return [texts[at : at + AT_ONCE] for at in range(0, len(texts), AT_ONCE)]


async def _some(opened: OpenedModel, texts: list[str]) -> NDArray[np.float64]:
    """[texts, numbers each]."""
    link, name = opened.link, opened.link.to.name
    body = {"model": opened.model.id, "input": texts, "encoding_format": "float"}
    try:
        async with link.send("POST", f"{link.to.api}/embeddings", body) as answer:
            if answer.status_code != 200:
                raise await opened.refusal(answer)
            content = await link.content(answer)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
        raise unreachable(link.to, error) from error
    try:
        found = {vector.index: vector.embedding for vector in _read(content).data}
    except UNREADABLE:
        if len(content) >= MOST_BODY:
            raise ServerFailed(name, "its embeddings are larger than 16 MiB") from None
        raise no_interface(link.to, answer.headers) from None
    widths = {len(row) for row in found.values()}
    if found.keys() != set(range(len(texts))) or len(widths) != 1 or 0 in widths:
        raise ServerFailed(name, f"it did not return one embedding for each of {len(texts)} texts")
    vectors = np.array([found[index] for index in range(len(texts))], np.float64)
    if not (np.abs(vectors) <= LARGEST).all():
        problem = f"a number of its embeddings is outside -{LARGEST:g} to {LARGEST:g}"
        raise ServerFailed(name, problem)
    return vectors
