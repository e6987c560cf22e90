"""Writes what sequences have read to the disk, while the engine has nothing to do."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from time import monotonic, time
from typing import NamedTuple

from engine.kept import remove
from engine.prefixes import TAILS, Saved, file_of, forget_chat, write
from engine.runner.answering.slots import Slots
from engine.runner.prefixes.kept import KeptPrefixes
from engine.runner.sequence import Sequenced
from engine.units import GB

AFTER = 2.0
"""Seconds without a request before anything is written."""
LOOK = 0.05
"""Seconds between two looks whether the file before is written."""
CLOSING = 3.0
"""Seconds to go on writing once there are no requests."""
A_DAY = 50 * GB
"""Bytes that are written in a day at most: disks wear out."""
DAY = 86_400.0


class _Stopped(Exception):  # noqa: N818
    """A file is not to be finished."""


class _File(NamedTuple):
    """A file to be written, those that it makes needless, and the blocks that it is of use with."""

    name: str
    saved: Saved
    gone: list[Path]
    needed: Sequence[str]


class SavingPrefixes:
    """Writes the prefixes of a model's idle sequences, those of chats alone. Cells are read in the
    thread that computes, a file's at a time, when `step` is called; files are written in another,
    which goes on only while the engine is `idle`. `problem` is why the last one was not written.
    Of a chat that is larger than the folder may be, the beginning is.
    """

    def __init__(self, prefixes: KeptPrefixes, slots: Slots, idle: Event) -> None:
        self.problem = ""
        self._note, self._noted = "", False
        self._prefixes, self._slots, self._idle = prefixes, slots, idle
        self._files: Iterator[tuple[str, Saved]] | None = None
        self._queue: Queue[_File | None] = Queue()
        self._written = Event()
        self._written.set()
        self._hurries, self._stopped = Event(), Event()
        self._done: dict[int, tuple[str | None, int, int]] = {}
        self._day, self._bytes = time(), 0
        if prefixes.most:
            Thread(target=self._write_all, daemon=True, name="prefixes").start()

    @property
    def is_pending(self) -> bool:
        """True if a sequence holds what may have to be written."""
        writes = bool(self._prefixes.most) and not self.problem
        return writes and (not self._written.is_set() or any(map(self._is_new, self._idle_ones)))

    @property
    def _idle_ones(self) -> list[Sequenced]:
        return [one for one in self._slots.idle if one.chat is not None]

    def _is_new(self, sequence: Sequenced) -> bool:
        return self._done.get(sequence.number) != _state(sequence)

    def notes(self) -> list[str]:
        """Return what the person is to know of what is not kept, once."""
        problem = f"what chats have read is not kept on the disk: {self.problem}"
        note = self._note or (problem if self.problem else "")
        if self._noted or not note:
            return []
        self._noted = True
        return [note]

    def step(self) -> None:
        """Have the next file written, if the one before is: nothing else may be computed."""
        if not self._written.is_set():
            return
        sequence = next(filter(self._is_new, self._idle_ones), None)
        if sequence is None:
            return
        chat = sequence.chat or ""
        if self._files is None:
            pays = self._prefixes.pays(len(sequence.items))
            self._files = iter(self._prefixes.files(sequence, _is_written, chat) if pays else ())
        following = next(self._files, None)
        if following is None:
            self._done[sequence.number], self._files = _state(sequence), None
        else:
            name, saved = following
            ends = name.endswith(TAILS)
            before = self._prefixes.before(sequence, chat) if ends else []
            self._written.clear()
            gone = [one for one in before if one.name != name]
            self._queue.put(_File(name, saved, gone, self._prefixes.blocks(sequence)))

    def interrupt(self) -> None:
        """Sequences are about to change: what was begun of them is begun again later."""
        self._files = None

    def finish(self, seconds: float = CLOSING) -> None:
        """Write for so long at most, whatever else there is to do."""
        end = monotonic() + seconds
        self._hurries.set()
        while self.is_pending and monotonic() < end:
            self._written.wait(LOOK)
            self.step()
        self._hurries.clear()
        self.interrupt()

    def forget(self, chat: str) -> None:
        """Delete what is kept of a chat, and keep nothing more of it."""
        self.interrupt()
        for sequence in self._slots.sequences:
            if sequence.chat == chat:
                sequence.chat = None
        self._hurries.set()
        self._written.wait()
        self._hurries.clear()
        self._prefixes.ram.clear()
        forget_chat(chat)

    def stop(self) -> None:
        """Write nothing more."""
        self._stopped.set()
        self._queue.put(None)

    def _write_all(self) -> None:
        while (following := self._queue.get()) is not None:
            try:
                self._write(following)
            except _Stopped:
                pass
            except FileExistsError:  # another program writes it
                pass
            except OSError as error:
                self.problem = str(error)
            finally:
                self._written.set()

    def _write(self, file: "_File") -> None:
        if time() - self._day > DAY:
            self._day, self._bytes = time(), 0
        self._bytes += len(file.saved.body)
        if self._bytes <= A_DAY:
            most = self._prefixes.most
            if write(file_of(file.name), file.saved, most, self._wait, file.needed):
                for path in file.gone:
                    remove(path)
            else:
                self._note = (
                    f"a chat is larger than the {most / GB:.2g} GB for what chats have read: only"
                    " its beginning is kept; raise --kept-chats or the limit in the preferences"
                )

    def _wait(self) -> None:
        """Wait for the engine's leisure. Raises `_Stopped`."""
        while not (self._stopped.is_set() or self._hurries.is_set() or self._idle.wait(LOOK)):
            pass
        if self._stopped.is_set():
            raise _Stopped


def _state(sequence: Sequenced) -> tuple[str | None, int, int]:
    """Differs from what it was where a sequence holds other items."""
    return sequence.chat, len(sequence.items), hash(tuple(sequence.items))


def _is_written(name: str) -> bool:
    return file_of(name).is_file()
