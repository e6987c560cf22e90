"""One token examined from the command line: its arguments, the request, the context's words; and
the comparison of two texts (`cutaway compare --against`).
"""

import argparse
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.terminal.edits import add_edit_options, edits_of
from app.terminal.options import add_engine_options, count, engine_options
from app.terminal.text import note, plain, table
from engine.protocol import (
    ContextItems,
    Examine,
    Examined,
    Loaded,
    PairedResult,
    TextsCompared,
    TokenPair,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model, the text, which token of it, and the engine's options."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument("-p", "--prompt", required=True, metavar="TEXT", help="the text")
    parser.add_argument("--chat", action="store_true", help="apply the chat template to TEXT")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="add this picture to the message; repeatable",
    )
    parser.add_argument(
        "--at",
        type=count,
        metavar="N",
        help="position N, from 0 (default: the next token after TEXT)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_edit_options(parser)
    add_engine_options(parser)


def examined(path: Path, args: argparse.Namespace, **wanted: Any) -> tuple[Loaded, Examined]:
    """The token that the arguments name, with what is `wanted` of it (fields of `Examine`).

    Raises BadSetting, RemoteError, WorkerDied.
    """
    from app.terminal.engine import CommandEngine
    from app.terminal.pictures import question_about

    options, edits = engine_options(args), edits_of(args)
    with CommandEngine(path, options) as engine:
        loaded = engine.start()
        messages, prompt = question_about(engine, loaded, args.prompt, args.image, args.chat)
        request = Examine(
            engine.worker.new_id(),
            messages=messages,
            prompt=prompt,
            at=args.at,
            edits=edits,
            **wanted,
        )
        found = engine.get(request)
    if found.note:
        note(found.note)
    return loaded, found


def ints(data: bytes) -> list[int]:
    """Decode little-endian i32."""
    return array("i", data).tolist()


def floats(data: bytes) -> list[float]:
    """Decode little-endian f32."""
    return array("f", data).tolist()


def words(items: ContextItems) -> list[str]:
    """Each item's text; a row of a picture has none, and of a character's parts the last has it."""
    ends = ints(items.ends)
    return [items.text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def quoted(text: str) -> str:
    """A token for a cell of a table."""
    return f'"{plain(text)}"'


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
    yield f"  first difference: {_pair_text(rows[compared.first], pairs)}"
    yield f"  the last is {_pair_text(rows[-1], pairs)}"


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


def _pair_text(row: PairedResult, pairs: Sequence[TokenPair]) -> str:
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
