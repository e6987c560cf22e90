"""A worker whose imports take long, as from a slow disk, until a file exists: `python -m ... N`."""

import os
import sys
import time
from pathlib import Path

ENOUGH = "CUTAWAY_TEST_ENOUGH"  # the environment's name for that file

if __name__ == "__main__":
    while not Path(os.environ[ENOUGH]).exists():
        time.sleep(0.05)
    from engine.system import pipe_of
    from engine.worker.serve import serve

    serve(pipe_of(sys.argv[1]))
