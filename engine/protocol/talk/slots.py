"""Who is answered now."""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request


class SlotRow(msgspec.Struct, frozen=True):
    """One of the sequences that can be answered at once. `request` is 0 where it waits for one;
    `n_tokens` are in the cache, `n_prompt` of the prompt, of which `n_read` are computed.
    """

    number: int
    request: int
    n_tokens: int
    n_prompt: int = 0
    n_read: int = 0
    n_generated: int = 0


class SlotTable(Reply, frozen=True):
    """The slots, how many requests wait for one, and the cells that hold every token. Where there
    are several slots it is told to everybody with id 0 as they change, at most ten times a second.
    """

    slots: list[SlotRow]
    n_waiting: int
    n_cells: int
    n_free: int


class ListSlots(Request[SlotTable], frozen=True):
    """Who is answered now."""

    between: ClassVar[bool] = True
