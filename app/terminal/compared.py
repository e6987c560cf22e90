"""Two texts against each other as `cutaway compare --against` tells it."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from app.terminal.examined import floats, quoted
from app.terminal.table import table
from app.terminal.text import plain
from engine.protocol import PairedResult, TextsCompared, TokenPair

TITLES = ("result", "device", "NMSE", "cosine", "most at", "NMSE there")
NONE = "–"


def text_lines(device: str, compared: TextsCompared, everything: bool) -> Iterator[str]:
    """Yield lines on the equal tokens, the first different result, and the last one."""
    rows, pairs = compared.rows, compared.pairs
    alike = next((i for i, pair in enumerate(pairs) if pair.text != pair.other_text), None)
    yield f"{device}: {len(rows)} results of {len(pairs)} pairs of tokens"
    if alike is not None:
        yield f"  first pair of different tokens: {_pair(pairs[alike])}"
    if everything:
        yield from table([TITLES, *(_cells(row, pairs) for row in rows)], left=(0, 1, 4))
    if compared.first is None:
        yield "  no result differs by more than rounding errors"
        return
    yield f"  first difference: {_said(rows[compared.first], pairs)}"
    yield f"  the last is {_said(rows[-1], pairs)}"


def as_json(compared: msgspec.Struct) -> dict[str, Any]:
    """For programs: lists in place of bytes."""
    made: dict[str, Any] = msgspec.to_builtins(compared)
    if isinstance(compared, TextsCompared):
        for row, one in zip(made["rows"], compared.rows, strict=True):
            row["errors"], row["cosines"] = floats(one.errors), floats(one.cosines)
    return made


def _cells(row: PairedResult, pairs: Sequence[TokenPair]) -> Sequence[str]:
    if row.error is None or row.cosine is None:
        return _name(row), row.device, NONE, NONE, "rows of other lengths", NONE
    errors = floats(row.errors)
    most = max(range(len(errors)), key=errors.__getitem__)
    where = _pair(pairs[row.first_pair + most])
    numbers = f"{row.error:.1e}", f"{row.cosine:.4f}"
    return _name(row), row.device, *numbers, where, f"{errors[most]:.1e}"


def _said(row: PairedResult, pairs: Sequence[TokenPair]) -> str:
    name, device, error, cosine, where, there = _cells(row, pairs)
    return f"{name} on {device}: NMSE {error}, cosine {cosine}, most at {where} ({there})"


def _pair(pair: TokenPair) -> str:
    place = (
        f"{pair.place}" if pair.place == pair.other_place else f"{pair.place}:{pair.other_place}"
    )
    both = dict.fromkeys((pair.text, pair.other_text))
    return f"{place} {' / '.join(quoted(text) for text in both)}"


def _name(row: PairedResult) -> str:
    name = plain(row.name)
    return f"{name}#{row.occurrence}" if row.occurrence else name
