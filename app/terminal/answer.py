"""One answer of a model, streamed to stdout, and its statistics afterwards."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.terminal.engine import CommandEngine, Interrupt
from app.terminal.pictures import PicturesInWorker
from app.terminal.text import aside, note, raw, whole
from app.tools.calling import CollectedCalls
from app.words import UNKNOWN
from engine.protocol import ChatMessage, Finished, Generate, Loaded, Piece, TokenInfo
from engine.worker import RemoteError

ENDINGS = {
    "length": "token limit",
    "context": "context full",
    "loop": "repetition",
    "cancelled": "stopped",
}


@dataclass
class PrintedAnswer:
    """The printed answer; `finished` is there once the request has ended."""

    parts: list[str] = field(default_factory=list)
    tokens: list[TokenInfo] = field(default_factory=list)
    finished: Finished | None = None
    calls: CollectedCalls = field(default_factory=CollectedCalls)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.parts)

    @property
    def cancelled(self) -> bool:
        """True if Ctrl+C ended the answer."""
        return self.finished is not None and self.finished.reason == "cancelled"


def answer(
    engine: CommandEngine,
    template: Generate,
    messages: Sequence[ChatMessage],
    quiet: bool = False,
    pictures: PicturesInWorker | None = None,
) -> PrintedAnswer:
    """Requests an answer by the template's settings and prints it as it comes, unless `quiet`.

    The first Ctrl+C stops it and is no error. `pictures` that the engine has forgotten are brought
    again. Raises RemoteError, WorkerDied, and KeyboardInterrupt for the second.
    """
    try:
        return _answer(engine, template, messages, quiet)
    except RemoteError as error:
        if pictures is None or not error.pictures:
            raise
        pictures.send_again(error.pictures)
        return _answer(engine, template, messages, quiet)


def _answer(
    engine: CommandEngine, template: Generate, messages: Sequence[ChatMessage], quiet: bool
) -> PrintedAnswer:
    request = msgspec.structs.replace(template, id=engine.new_id(), messages=list(messages))
    made, watched = PrintedAnswer(), sys.stdout.isatty()
    try:
        with Interrupt() as interrupt:
            for reply in engine.send(request, interrupt):
                if isinstance(reply, Finished):
                    made.finished = reply
                elif isinstance(reply, Piece):
                    made.parts.append(reply.text)
                    made.tokens += reply.tokens
                    if reply.call is not None:
                        made.calls.add(reply.call)
                    if not quiet:
                        (whole if watched else raw)(reply.text, end="")
    finally:
        if not quiet and (made.parts or made.finished):
            print(flush=True)
    return made


def as_json(made: PrintedAnswer, loaded: Loaded) -> dict[str, Any]:
    """Everything about an answer."""
    assert made.finished is not None
    stats = made.finished.stats
    rates = {"prefill_rate": stats.prefill_rate, "decode_rate": stats.decode_rate}
    return {
        "model": loaded.name,
        "path": loaded.path,
        "device": loaded.device,
        "text": made.text,
        "finish_reason": made.finished.reason,
        "stop": made.finished.matched,
        "tokens": [_token(info) for info in made.tokens],
        "stats": msgspec.to_builtins(stats) | rates,
    }


def _token(info: TokenInfo) -> dict[str, Any]:
    """All that is known; a server may not give its tokens' ids, which are below 0 then."""
    full: dict[str, Any] = msgspec.to_builtins(info)
    for one in (full, *full["top"]):
        if one["token"] < 0:
            del one["token"]
    if info.logprob is None:
        key = "token" if "token" in full else "text"
        return {key: full[key]}
    return full


def logprob_table(tokens: Iterable[TokenInfo]) -> Iterable[str]:
    """A line for each token: id, natural log-probability, text, and what else could have come."""
    yield f"{'token':>8}  {'logprob':>8}  text; alternatives"
    for info in tokens:
        if info.logprob is not None:
            others = "  ".join(f"{a.text!r} {a.logprob:.3f}" for a in info.top)
            number = info.token if info.token >= 0 else UNKNOWN
            yield f"{number:>8}  {info.logprob:>8.3f}  {info.text!r}; {others}"


def print_ending(made: PrintedAnswer, loaded: Loaded) -> None:
    """Report dropped or cut text to everyone; the statistics, in one line, to a terminal."""
    assert made.finished is not None
    stats, reason = made.finished.stats, made.finished.reason
    if stats.n_truncated:
        note(f"{stats.n_truncated} tokens of the prompt did not fit the context and were dropped")
    for text in stats.notes:
        (aside if loaded.device.startswith("server ") else note)(text)
    if reason == "context":
        note(f"the context of {loaded.n_ctx} tokens is full; raise --ctx or use --when-full shift")
    elif reason == "loop":
        note("stopped: the answer kept repeating itself; try --repeat-penalty 1.1")
    parts = [f"{stats.decode_rate:.1f} t/s"] if stats.n_generated > 1 else []
    parts += [f"{stats.n_generated} tokens"]
    if stats.n_drafted:
        parts += [f"{stats.n_accepted} of {stats.n_drafted} drafted, {stats.draft_gain:.2f}x"]
    if stats.n_generated:
        parts += [f"first after {stats.first_token_s:.2f} s"]
    parts += [f"pictures {stats.encode_s:.2f} s"] if stats.encode_s else []
    parts += [f"prompt {stats.n_prompt} ({stats.n_cached} kept)"]
    parts += [f"context {stats.n_context}/{loaded.n_ctx or UNKNOWN}"]
    parts += [f"shifted {stats.n_shifts}x"] if stats.n_shifts else []
    parts += [f"seed {stats.seed}"]
    parts += [ENDINGS[reason]] if reason in ENDINGS else []
    aside(" · ".join(parts))
