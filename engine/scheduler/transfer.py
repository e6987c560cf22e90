"""Copies between devices while a plan runs: they leave early and arrive when they are wanted."""

from dataclasses import dataclass

from engine.device.backend import Bytes, Event, Location
from engine.scheduler.split import Copy


class Staging:
    """Host memory that copies pass through. A span is reused once no device reads it any more."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._lent: list[tuple[int, int, Event]] = []

    def lend(self, start: int, end: int, until: Event) -> None:
        """Mark these bytes as read by a device until the event."""
        self._lent.append((start, end, until))

    def claim(self, start: int, end: int) -> Bytes:
        """Wait until no device reads the bytes from `start` to `end`, and return them."""
        for first, last, until in self._lent:
            if first < end and start < last:
                until.wait()
        self._lent = [one for one in self._lent if not (one[0] < end and start < one[1])]
        return self.data[start:end]


@dataclass
class Departure:
    """Bytes with their final values: being copied to staging, or ready for a direct copy."""

    source: Location
    size: int
    staging: Staging | None = None
    offset: int = 0
    left: Event | None = None

    def start(self) -> Event:
        """Queue the copy behind what computes the bytes; returns at once."""
        if self.staging is None:
            self.left = self.source.buffer.mark()
        else:
            into = self.staging.claim(self.offset, self.offset + self.size)
            self.left = self.source.buffer.start_read(self.source.offset, into)
        return self.left


@dataclass(frozen=True)
class ResolvedCopy:
    """A copy with both ends resolved, in one of four ways: into the host's memory, from there,
    straight from device to device, or through staging.
    """

    copy: Copy
    source: Location
    target: Location
    departure: Departure | None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.copy.source.nbytes

    @property
    def lends(self) -> bool:
        """True if the target's device may still read the host's memory after `arrive`."""
        return self.departure is None and not self.copy.target.is_host

    def arrive(self) -> tuple[Event, ...]:
        """Queue the rest of the copy, before what reads it. Returns all commands of the copy."""
        to, offset = self.target.buffer, self.target.offset
        if self.departure is None:
            if self.lends:
                held = self.source.buffer.view(self.source.offset, self.size)
                return (to.start_write(offset, held),)
            read = self.source.buffer.start_read(self.source.offset, to.view(offset, self.size))
            read.wait()
            return (read,)
        left = self.departure.left
        if left is None or self.copy.made < 0:  # No split made it that could have sent it off.
            left = self.departure.start()
        if not self.copy.staged:
            return (to.start_copy(offset, self.source, self.size, left),)
        left.wait()
        staging, start = self.departure.staging, self.departure.offset
        assert staging is not None
        written = to.start_write(offset, staging.data[start : start + self.size])
        staging.lend(start, start + self.size, written)
        return left, written
