"""Requests to remote engines beyond the protocol: test a server, and open a model of it."""

from typing import Literal

import msgspec

from app.remote.connection import Connection
from engine.protocol import Loaded, Reply, Request

ServerKind = Literal["cutaway", "llama-server", "vllm", "sglang", "ollama", "lm studio", "openai"]

KINDS: dict[ServerKind, str] = {
    "cutaway": "Cutaway",
    "llama-server": "llama-server",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "ollama": "Ollama",
    "lm studio": "LM Studio",
    "openai": "OpenAI-compatible server",
}
"""What each is called where people read."""


class ServedModel(msgspec.Struct, frozen=True):
    """A model of a server; None is what it does not tell. `writes` is false of one that gives
    embeddings alone.
    """

    id: str
    n_ctx: int | None = None
    sees: bool | None = None
    writes: bool = True


class ServerProbed(Reply, frozen=True):
    """A server has answered. `seconds` is what the first answer took, name and network included."""

    kind: ServerKind
    version: str
    models: list[ServedModel]
    seconds: float


class ProbeServer(Request[ServerProbed], frozen=True):
    """Which server this is and what it has. Without a `key` the one that is kept is used."""

    connection: Connection
    key: str | None = None


class OpenServer(Request[Loaded], frozen=True):
    """Ask a model of a server from now on; the server is asked whether it is there. Without
    `writes` it may be one that gives embeddings alone.
    """

    connection: Connection
    model: str
    path: str
    writes: bool = True
