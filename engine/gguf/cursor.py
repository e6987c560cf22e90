"""Reading a mapped header front to back, with every length checked against what is left."""

import struct
from array import array

from engine.errors import BadFile


class Cursor:
    """A position in a mapped file. `order` is "<" or ">" once known."""

    def __init__(self, path: str, data: memoryview) -> None:
        self.path, self.data = path, data
        self.pos = 0
        self.order = "<"

    def fail(self, problem: str, cut_off: bool = False) -> BadFile:
        """The error for this file."""
        error = BadFile(self.path, problem)
        error.cut_off = cut_off
        return error

    def number(self, code: str, what: str) -> int | float | bool:
        """One number of that `struct` code."""
        field = struct.Struct(self.order + code)
        start = self._advance(field.size, what)
        value: int | float | bool = field.unpack_from(self.data, start)[0]
        return value

    def integer(self, code: str, what: str) -> int:
        """One number of an integer code."""
        return int(self.number(code, what))

    def span(self, size: int, what: str) -> memoryview:
        """The next `size` bytes, not copied."""
        start = self._advance(size, what)
        return self.data[start : self.pos]

    def string(self, what: str) -> memoryview:
        """A string: a 64-bit length and its bytes, not copied."""
        return self.span(self.integer("Q", what), what)

    def name(self, what: str, longest: int) -> str:
        """A string of at most `longest` bytes that must be UTF-8."""
        raw = self.string(what)
        if len(raw) > longest:
            raise self.fail(f"the name of a {what} has {len(raw)} bytes; at most {longest}")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"the name of a {what} is not UTF-8: {bytes(raw[:32])!r}") from None

    def count(self, what: str, smallest: int, most: int) -> int:
        """A 64-bit count of things of at least `smallest` bytes, at most `most` of them."""
        return self.check_count(self.integer("Q", f"number of {what}"), what, smallest, most)

    def check_count(self, count: int, what: str, smallest: int, most: int) -> int:
        """`count`, if so many things can be in what is left of the file."""
        left = len(self.data) - self.pos
        if count > most or count * smallest > left:
            limit = f"{left} bytes are left" if count * smallest > left else f"at most {most}"
            raise self.fail(
                f"claims {count} {what}, but {limit}; the file is damaged", count <= most
            )
        return count

    def string_starts(self, count: int, what: str) -> "array[int]":
        """Where each of `count` strings begins (its length field), from here; moves past them."""
        begin = at = self.pos
        starts = array("q")
        length_at = struct.Struct(self.order + "Q").unpack_from
        data, append = self.data, starts.append
        try:  # The lengths lead to each other, so this is a plain walk, kept tight.
            for _ in range(count):
                append(at - begin)
                at += 8 + length_at(data, at)[0]
        except (struct.error, OverflowError, IndexError):
            at = len(data) + 1
        self._advance(at - begin, what)
        return starts

    def _advance(self, size: int, what: str) -> int:
        start, left = self.pos, len(self.data) - self.pos
        if size > left:
            raise self.fail(
                f"ends inside {what}: {size} bytes wanted at {start}, {left} left; "
                "the file is cut off or damaged",
                cut_off=True,
            )
        self.pos += size
        return start
