"""`python -m engine.worker PIPE`: answers requests on the pipe (`start_with_pipe` names it)."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # what is imported stays: looking for garbage in it takes a sixth of the start
    from engine.system import pipe_of
    from engine.worker.serve import serve

    gc.freeze()
    gc.enable()
    serve(pipe_of(sys.argv[1]))
