"""`python -m engine.worker N`: answers requests on the pipe that is file descriptor N."""

import sys
from multiprocessing.connection import Connection

from engine.worker.serve import serve

if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
