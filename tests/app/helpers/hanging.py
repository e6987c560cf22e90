"""A worker whose loads of `hangs.gguf` never end and hear no Cancel: `python -m ... N`.

A file `hangs.gguf.begun` beside it tells that such a load has begun.
"""

import sys
import time
from pathlib import Path

from engine.protocol import Load, Loaded
from engine.system import pipe_of
from engine.worker.handlers import HANDLERS
from engine.worker.serve import serve
from engine.worker.service import Service

load = HANDLERS[Load]


def hang(service: Service, request: Load) -> Loaded:
    while request.path.endswith("hangs.gguf"):
        Path(f"{request.path}.begun").touch()
        time.sleep(0.01)
    return load(service, request)  # type: ignore[return-value]


if __name__ == "__main__":
    HANDLERS[Load] = hang
    serve(pipe_of(sys.argv[1]))
