"""The base of all messages: a request names the reply that ends it, `Request[Loaded]`."""

from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import msgspec

StageName = Literal[
    "load", "compile", "decode", "encode", "form", "prefill", "look", "score", "embed", "rank",
    "bench",
]  # fmt: skip


class WireMessage(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages; `id` is the request's. On the wire the class's name stands with it.

    A subclass that is a base of others is never sent.
    """

    id: int


class Reply(WireMessage, frozen=True):
    """A reply to a request, or with `id` 0 a broadcast."""


class Heartbeat(Reply, frozen=True):
    """Broadcast every second by a thread of its own: the process runs."""


R = TypeVar("R", bound=Reply)
R_co = TypeVar("R_co", bound=Reply, covariant=True)


class Request(WireMessage, Generic[R_co], frozen=True):
    """A request. It ends with exactly one reply of the class `ends`, or with `Failed`.

    `stage` is what the engine does first for it, until a `Progress` says more. What is asked
    `beside` waits for no request but others of that kind: it plans or reads, and has no open model
    compute or change. What is answered `between` two steps of answers does not wait for them to
    end, nor does what is answered `in_parts`, each between two steps, if there is room for it; one
    such request is answered after the other. All else does, and answers that are requested after it
    wait for it.
    """

    ends: ClassVar[type[Reply]]
    stage: ClassVar[StageName] = "load"
    beside: ClassVar[bool] = False
    between: ClassVar[bool] = False
    in_parts: ClassVar[bool] = False

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        (cls.ends,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]


class Order(WireMessage, frozen=True):
    """A command to the engine without a reply."""


class Cancel(Order, frozen=True):
    """Stop the request of this id within one step; it still ends as it would."""


class Shutdown(Order, frozen=True):
    """End the worker."""


class Failed(Reply, frozen=True):
    """A request ended with an error; `kind` is its class in `engine.errors`.

    `pictures` are digests that it named and the engine does not hold: bring them, then ask again.
    """

    kind: str
    message: str
    pictures: list[str] = []


class Progress(Reply, frozen=True):
    """How far a stage of a request is. `estimate` is the perplexity so far, while scoring.

    While pictures are encoded, what is counted are blocks of the tower. `picture` is the number of
    the one and how many the prompt has, `view` the number of its view and how many it has, `block`
    the number of the tower's block and how many it has, all from 1. `note` says what holds it up.
    """

    stage: StageName
    done: int
    total: int
    estimate: float | None = None
    picture: tuple[int, int] | None = None
    view: tuple[int, int] | None = None
    block: tuple[int, int] | None = None
    note: str = ""
