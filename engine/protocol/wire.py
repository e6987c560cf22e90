"""Messages as bytes: MessagePack. What can be sent is every class of message there is."""

from collections.abc import Callable, Iterator
from typing import Any, Union, cast

import msgspec

from engine.protocol.message import Order, Reply, Request, WireMessage

encode = msgspec.msgpack.encode


def decoder_of_requests() -> Callable[[bytes], Request[Any] | Order]:
    """For what the engine receives. Raises `msgspec.DecodeError` for bytes that are no request."""
    return _decoder(Request, Order)


def decoder_of_replies() -> Callable[[bytes], Reply]:
    """For what the engine sends. Raises `msgspec.DecodeError` for bytes that are no reply."""
    return cast(Callable[[bytes], Reply], _decoder(Reply))


def kinds(base: type[WireMessage]) -> Iterator[type[WireMessage]]:
    """The classes below `base` that can be sent: those that are no base of others."""
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from kinds(kind)
        else:
            yield kind


def _decoder(*bases: type[WireMessage]) -> Callable[[bytes], Any]:
    sent: Any = tuple(kind for base in bases for kind in kinds(base))
    return msgspec.msgpack.Decoder(Union[sent]).decode  # noqa: UP007
