"""A message as the recipe adds it, request, reply and handler, and a worker that knows it."""

import sys

from engine.errors import BadSetting, Cancelled
from engine.protocol import Progress, Reply, Request
from engine.system import pipe_of
from engine.worker.handlers import answers
from engine.worker.serve import serve
from engine.worker.service import Service


class Counted(Reply, frozen=True):
    """How many times each letter occurs."""

    letters: dict[str, int]


class CountLetters(Request[Counted], frozen=True):
    """Count the letters of a text."""

    text: str


@answers(CountLetters)
def _count(service: Service, request: CountLetters) -> Counted:
    if not request.text:
        raise BadSetting("text", request.text, "some text")
    stop, letters = service.stop_of(request), dict[str, int]()
    for at, letter in enumerate(request.text):
        service.send(Progress(request.id, "score", at, len(request.text)))
        while letter == "…" and not stop():
            pass
        if stop():
            raise Cancelled("counting")
        letters[letter] = letters.get(letter, 0) + 1
    return Counted(request.id, letters)


if __name__ == "__main__":
    serve(pipe_of(sys.argv[1]))
