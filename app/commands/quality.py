"""`cutaway quality`: what a quantisation loses against its base, on a text of one's own."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from app.terminal.options import add_engine_options, engine_options, positive
from app.terminal.text import print_json, read_text, table
from app.words import UNKNOWN
from engine.errors import BadSetting
from engine.protocol import Estimate, MeasureQuality, QualityMeasured, TensorLoss, TensorSwap

NAME = "quality"
HELP = "measure what a quantisation loses: KL divergence, top tokens, and which tensor is to blame"
CHUNK, EXACT = 512, 16
SHOWN = 20  # tensors


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="the quantised file; with --what-if alone, the base"
    )
    parser.add_argument("--base", metavar="FILE", help="the file to compare with: F32, F16, BF16…")
    parser.add_argument(
        "--text", type=Path, required=True, metavar="TEXTFILE", help="a file of UTF-8 text"
    )
    parser.add_argument(
        "--chunks", type=positive, metavar="N", help="chunks of --ctx tokens to use (all)"
    )
    parser.add_argument("--drift", action="store_true", help="measure the error of each layer")
    parser.add_argument(
        "--guilty",
        action="store_true",
        help=f"find the tensors that lose most: all to first order, the worst {EXACT} exactly",
    )
    parser.add_argument("--all", action="store_true", help="with --guilty: try every tensor")
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="NAME[=TYPE]",
        help="the base with this tensor (a regular expression) as TYPE, or as MODEL has it",
    )
    parser.add_argument(
        "--in-turn", action="store_true", help="open one model at a time (if both do not fit)"
    )
    parser.add_argument(
        "--like-llama", action="store_true", help="round as llama-perplexity does, to 16 bits"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_engine_options(parser, without=("ctx",))
    parser.add_argument(
        "--ctx", type=positive, default=CHUNK, metavar="N", help=f"tokens of a chunk ({CHUNK})"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the estimates, drift and tensors that were requested.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    options = engine_options(args, without=("ctx",))
    if args.base is None and not args.what_if:
        raise BadSetting("--base", None, "a file to compare with, or --what-if NAME=TYPE")
    if (args.guilty or args.all) and args.what_if:
        raise BadSetting("--guilty", "--what-if", "one of the two")
    swaps = [TensorSwap(*_parts(text)) for text in args.what_if]
    text = read_text("--text", args.text)

    from app.library import resolve
    from app.terminal.engine import CommandEngine

    path = resolve(args.model)
    base = path if args.base is None else resolve(args.base)
    with CommandEngine(path, options) as engine:
        worker = engine.start_empty()
        found = engine.get(
            MeasureQuality(
                worker.new_id(),
                str(base),
                options,
                text,
                "" if args.base is None else str(path),
                args.ctx,
                args.chunks,
                True if args.in_turn else None,
                args.like_llama,
                args.drift,
                -1 if args.all else EXACT if args.guilty else 0,
                swaps,
            )
        )
    if args.json:
        made: dict[str, Any] = msgspec.to_builtins(found)
        del made["id"], made["type"]
        print_json(made)
    else:
        for line in _lines(found):
            print(line)
    return 0


def _parts(text: str) -> tuple[str, str]:
    name, _, kind = text.partition("=")
    return name, kind


def _lines(found: QualityMeasured) -> Iterator[str]:
    turn = ", one model at a time" if found.in_turn else ""
    chunks = (
        f"{found.n_chunks} {'chunk' if found.n_chunks == 1 else 'chunks'} of {found.n_ctx} tokens"
    )
    against = f" against {found.base_name}"
    if n := found.n_swapped:
        against = f", {n} {'tensor' if n == 1 else 'tensors'} swapped"
    yield f"{found.name}{against}, {chunks} on {found.device}{turn}"
    if (e := found.estimates) is not None:
        yield f"perplexity      {_with_error(e.ppl, 4)}, base {_with_error(e.ppl_base, 4)}"
        yield f"  ratio         {_with_error(e.ratio, 4)}, ln {_with_error(e.ln_ratio, 5)}"
        yield f"KL divergence   {_with_error(e.kld, 6)}, largest {e.kld_max:.4f}"
        some = (f"{p} %: {e.kld_percentiles[p]:.6f}" for p in ("99", "90", "50", "10"))
        yield f"  percentiles   {', '.join(some)}"
        share = Estimate(100 * e.same_top.value, 100 * e.same_top.error)
        yield f"same top token  {_with_error(share, 3)} %"
        rms = Estimate(100 * e.dp_rms.value, 100 * e.dp_rms.error)
        yield f"RMS of Δp       {_with_error(rms, 3)} %"
    if found.memory:
        yield f"memory          {found.memory / 2**20:,.0f} MiB at most"
    if found.drift:
        rows = [["layer", "NMSE", "cosine", "NMSE from token 4", "cosine"]]
        for one in found.drift:
            numbers = (f"{one.nmse:.2e}", f"{one.cosine:.5f}")
            later = (f"{one.later_nmse:.2e}", f"{one.later_cosine:.5f}")
            rows.append([str(one.layer), *numbers, *later])
        yield from table(rows)
    if found.tensors:
        yield from table([_TITLES, *map(_cells, found.tensors[:SHOWN])], left=(0, 1))
        if len(found.tensors) > SHOWN:
            yield f"and {len(found.tensors) - SHOWN} tensors more (--json lists all)"
    if found.all_kld is not None:
        yield f"KL divergence with all of them: {found.all_kld:.6f}"


_TITLES = (
    *("tensor", "type", "MiB", "NMSE", "first order", "KLD alone", "KLD without"),
    "saved per MiB as Q8_0",
)


def _cells(one: TensorLoss) -> list[str]:
    exact = (UNKNOWN if x is None else f"{x:.6f}" for x in (one.alone, one.without, one.saved))
    size = f"{one.size / 2**20:.2f}"
    return [one.name, one.type, size, f"{one.nmse:.2e}", f"{one.output_nmse:.2e}", *exact]


def _with_error(one: Estimate, digits: int) -> str:
    return f"{one.value:.{digits}f} ± {one.error:.{digits}f}"
