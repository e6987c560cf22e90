"""A worker whose driver takes it down when a model is loaded, or with HANGS never comes back."""

import os
import signal
import sys
import time

from engine.protocol import Load, Loaded
from engine.system import pipe_of
from engine.worker.handlers import HANDLERS
from engine.worker.serve import serve
from engine.worker.service import Service


def end(service: Service, request: Load) -> Loaded:
    if not os.environ.get("HANGS"):
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # a driver has its own handler
        os.kill(os.getpid(), signal.SIGSEGV)
    while True:
        time.sleep(10)


if __name__ == "__main__":
    HANDLERS[Load] = end
    serve(pipe_of(sys.argv[1]))
