"""The open model's weights are written for the next time, while the engine has nothing to do."""

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread

from engine.device.backend import Buffer
from engine.errors import BadFile, CutawayError
from engine.gguf.splits import FileIdentity
from engine.runner.loading import LoadedModel
from engine.weights.prepared.store import keep_within, limit
from engine.weights.prepared.use import PreparedWeights, keepable
from engine.weights.prepared.writing import write

LOOK = 0.2
"""Seconds between two looks whether it is to end, while the engine is busy."""
END = 1.0
"""Seconds to wait for its end: what it writes then is removed by the next one."""


class Keeping:
    """Checks the file that weights were taken from, and writes one where weights are missing, in a
    thread of its own, a piece after the other. `problem` is why none was written that should have
    been, `damage` what the check found: the file is deleted then.
    """

    def __init__(self, model: LoadedModel, idle: Event) -> None:
        self.problem = self.damage = ""
        self._files = _files(model)
        self._checked = Event()
        self._idle, self._hurries, self._stopped = idle, Event(), Event()
        self._thread = Thread(target=self._run, args=(model.room.prepared, *_job(model)))
        self._thread.daemon = True
        self._thread.start()

    def has_ended(self, seconds: float) -> bool:
        """Go on whoever is answered, and wait so long for the end."""
        self._hurries.set()
        self._thread.join(seconds)
        self._hurries.clear()
        return not self._thread.is_alive()

    def checked(self) -> str:
        """Finish the check now, and return what it found; empty where all is whole."""
        self._hurries.set()
        self._checked.wait()
        self._hurries.clear()
        return self.damage

    def rewritten(self) -> str:
        """The first of the model's files that was written since it was opened, or whose name is of
        another file now; empty where none is. It is named once.
        """
        changed = [one for one in self._files if one.is_written]
        self._files = [one for one in self._files if one not in changed]
        return str(changed[0].path) if changed else ""

    def stop(self) -> None:
        """Write nothing more."""
        self._stopped.set()
        self._thread.join(END)

    def _run(
        self,
        prepared: PreparedWeights,
        buffers: Mapping[str, Buffer],
        most: int,
        unchanged: Callable[[], bool],
    ) -> None:
        try:
            whole = self._check(prepared)
        finally:
            self._checked.set()
        if not whole or prepared.path is None or not buffers:
            return
        try:
            if prepared.has(buffers):
                keep_within(most)
                return
            with closing(write(prepared.path, buffers, most, unchanged)) as pieces:
                for _ in pieces:
                    if not self._may_go_on():
                        return
        except (OSError, CutawayError) as error:
            self.problem = str(error)

    def _check(self, prepared: PreparedWeights) -> bool:
        """False where it is to end, or the file is damaged."""
        try:
            for _ in prepared.check():
                if not self._may_go_on():
                    return False
        except BadFile as error:
            self.damage = str(error)
            with suppress(OSError):
                Path(error.path).unlink()
            return False
        return True

    def _may_go_on(self) -> bool:
        """Wait for the engine's leisure. False when it is to end."""
        while not (self._stopped.is_set() or self._hurries.is_set() or self._idle.wait(LOOK)):
            pass
        return not self._stopped.is_set()


def _job(model: LoadedModel) -> tuple[Mapping[str, Buffer], int, Callable[[], bool]]:
    """Return the buffers to store, the size limit of all files, and a check that the model's files
    are unchanged.
    """
    stored, placed = model.opened.stored, model.room.placed
    lying = {one: placed[one.tensors[0][0]].buffer for one in model.dry.weights}
    read = _files(model)
    return keepable(lying, stored), limit(model.options), lambda: all(i.is_there for i in read)


def _files(model: LoadedModel) -> list[FileIdentity]:
    files = {model.opened.stored(tensor).file for tensor in model.built.sources}
    return [identity for file in files for identity in file.identity]
