"""`cutaway perplexity`: how well a model predicts a text, by llama-perplexity's convention."""

import argparse
from pathlib import Path

from app.files import output
from app.terminal.edits import add_edit_options, edits_of
from app.terminal.options import add_engine_options, count, engine_options
from app.terminal.text import print_json
from engine.errors import BadSetting
from engine.protocol import Loaded, Perplexity, PerplexityDone, Progress

NAME = "perplexity"
MOST_TEXT = 64 << 20
HELP = "compute the perplexity of a text"
CHUNK = 512  # tokens, as llama-perplexity has it


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", help="path, stored name or org/repo[:quant]")
    parser.add_argument("text", metavar="TEXTFILE", type=Path, help="a file of UTF-8 text")
    parser.add_argument(
        "--top-k", type=count, default=64, metavar="K", help="logits to store per position (64)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="X.npz",
        help="save the tokens and the K likeliest at each position",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_edit_options(parser)
    add_engine_options(parser)
    parser.set_defaults(ctx=str(CHUNK))


def run(args: argparse.Namespace) -> int:
    """Prints the estimate after each chunk, then the whole text's with its standard error.

    Raises BadSetting, ModelNotFound, RemoteError, WorkerDied.
    """
    options, edits = engine_options(args), edits_of(args)
    text = _read(args.text)
    if args.out is not None and not args.out.absolute().parent.is_dir():
        raise BadSetting("--out", str(args.out), "a file in an existing folder")

    from app.library import resolve
    from app.terminal.engine import CommandEngine

    with CommandEngine(resolve(args.model), options) as engine:
        loaded = engine.start()
        kept = args.top_k if args.out is not None else 0
        n_ctx = options.ctx or CHUNK
        request = Perplexity(engine.worker.new_id(), text, n_ctx, kept, edits)
        for reply in engine.send(request, bar=args.json):
            if isinstance(reply, PerplexityDone):
                done = reply
            elif isinstance(reply, Progress) and not args.json:
                print(f"[{reply.done}]{reply.estimate:.4f},", end="", flush=True)
    if args.out is not None:
        _store(done, args.out)
    _print(done, loaded, args.json)
    return 0


def _read(path: Path) -> str:
    with path.open("rb") as file:  # it may be a device that never ends
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        expected = f"at most {MOST_TEXT >> 20} MiB of text; score a part of it"
        raise BadSetting("TEXTFILE", str(path), expected)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSetting("TEXTFILE", str(path), f"UTF-8 text; byte {error.start} is not") from None


def _store(done: PerplexityDone, path: Path) -> None:
    """Writes `tokens` i32 [chunks, ctx], `ids` i32 and `logp` f32 [chunks, scored, k]."""
    import numpy as np

    scored = done.n_ctx - 1 - done.n_ctx // 2
    shape = (done.n_chunks, scored, done.top_k)
    tokens = np.frombuffer(done.tokens, "<i4").reshape(done.n_chunks, done.n_ctx)
    ids = np.frombuffer(done.ids, "<i4").reshape(shape)
    logp = np.frombuffer(done.logp, "<f4").reshape(shape)
    with output(path) as file:  # given a name, NumPy would add its ending
        np.savez(file, tokens=tokens, ids=ids, logp=logp)


def _print(done: PerplexityDone, loaded: Loaded, as_json: bool) -> None:
    if as_json:
        result = {
            "model": loaded.name,
            "device": loaded.device,
            "ctx": done.n_ctx,
            "chunks": done.n_chunks,
            "perplexity": done.perplexity,
            "error": done.error,
        }
        print_json(result)
    else:
        print(f"\nPPL = {done.perplexity:.4f} +/- {done.error:.4f}")
