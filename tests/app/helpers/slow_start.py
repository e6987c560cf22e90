"""A worker whose imports take long, as from a slow disk: `python -m ... N`."""

import sys
import time

START_S = 2.0  # longer than every limit that the test sets

if __name__ == "__main__":
    time.sleep(START_S)
    from engine.system import pipe_of
    from engine.worker.serve import serve

    serve(pipe_of(sys.argv[1]))
