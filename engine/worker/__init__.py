"""The engine's process, and the handle that starts it and talks to it.

Importing this brings the handle alone; what the process does is in `serve` and `handlers`.
"""

from engine.worker.handle import RemoteError, Worker

__all__ = ["RemoteError", "Worker"]
