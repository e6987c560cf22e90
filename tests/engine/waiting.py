"""A worker that is made to wait: in an answer, or in a plan beside it, until it is cancelled."""

import sys
from typing import ClassVar

from engine.errors import Cancelled
from engine.protocol import Progress, Reply, Request
from engine.system import pipe_of
from engine.worker.handlers import answers
from engine.worker.serve import serve
from engine.worker.service import Service


class Waited(Reply, frozen=True):
    """Never comes."""


class WaitForEver(Request[Waited], frozen=True):
    """In the thread that answers."""


class Noise(Reply, frozen=True):
    """Told again and again; larger than what is written to a pipe in one piece."""

    data: bytes


class PlanForEver(Request[Waited], frozen=True):
    """In the thread that plans; with a `size` it tells of so many bytes again and again."""

    beside: ClassVar[bool] = True

    size: int = 0


@answers(WaitForEver)
@answers(PlanForEver)
def _wait(service: Service, request: WaitForEver | PlanForEver) -> Waited:
    stop = service.stop_of(request)
    service.send(Progress(request.id, "load", 0, 1))
    while not stop():
        if getattr(request, "size", 0):
            service.send(Noise(request.id, bytes(request.size)))
    raise Cancelled("waiting")


if __name__ == "__main__":
    serve(pipe_of(sys.argv[1]))
