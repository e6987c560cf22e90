"""Messages of a shared engine's owner, besides the engine's replies. All have the id 0.

Frames are those of the worker's pipe: a length, then MessagePack that is decoded to known classes.
"""

from engine.protocol import Loaded, Reply

MOST_ASKED = 64 << 20  # bytes of a frame to the owner: a picture's file and what is around it
MOST_SAID = 256 << 20  # of one from it


class EngineOwner(Reply, frozen=True):
    """Who shares its engine: the first that is said. Programs of another `version` are left alone,
    as their messages may differ.
    """

    version: str
    program: str
    pid: int


class SharedModel(Reply, frozen=True):
    """This model is open from now on."""

    loaded: Loaded


class NoSharedModel(Reply, frozen=True):
    """No model is open, and why."""

    reason: str
