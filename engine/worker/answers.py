"""Who answers what: one function for each class of requests.

A handler gets the service and the request, tells what happens on the way by `service.send`, and
returns the reply that ends the request. What it raises becomes `Failed`. One of a request that is
answered `in_parts` is a generator: at each of its yields answers that are written have a step.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from engine.protocol import Reply, Request
from engine.worker.service import Service

R = TypeVar("R", bound=Reply)
InParts = Generator[None, None, R]
"""Yields between two parts, returns the reply."""
Handler = Callable[[Service, Any], R | InParts[R]]

HANDLERS: dict[type[Request[Any]], Handler[Reply]] = {}


def answers(kind: type[Request[R]]) -> Callable[[Handler[R]], Handler[R]]:
    """Makes a function the handler of a class of requests."""

    def register(handler: Handler[R]) -> Handler[R]:
        HANDLERS[kind] = handler
        return handler

    return register
