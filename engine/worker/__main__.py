"""`python -m engine.worker N`: answers requests on the pipe that is file descriptor N."""

import gc
import sys
from multiprocessing.connection import Connection

if __name__ == "__main__":
    gc.disable()  # what is imported stays: looking for garbage in it takes a sixth of the start
    from engine.worker.serve import serve

    gc.freeze()
    gc.enable()
    serve(Connection(int(sys.argv[1])))
