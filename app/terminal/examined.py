"""One token looked at from the command line: its arguments, the question, the context's words."""

import argparse
from array import array
from pathlib import Path
from typing import Any

from app.terminal.options import add_engine_options, count, engine_options
from app.terminal.text import note, plain
from engine.protocol import ContextItems, Examine, Examined, Loaded


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
    add_engine_options(parser)


def examined(path: Path, args: argparse.Namespace, **wanted: Any) -> tuple[Loaded, Examined]:
    """The token that the arguments name, with what is `wanted` of it (fields of `Examine`).

    Raises BadSetting, RemoteError, WorkerDied.
    """
    from app.terminal.engine import CommandEngine
    from app.terminal.pictures import asked_about

    options = engine_options(args)
    with CommandEngine(path, options) as engine:
        loaded = engine.start()
        messages, prompt = asked_about(engine, loaded, args.prompt, args.image, args.chat)
        request = Examine(
            engine.worker.new_id(),
            messages=messages,
            prompt=prompt,
            at=args.at,
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
