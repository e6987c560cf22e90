"""Numbers of an answer and of a stage of work, in words: one source for every place."""

from collections.abc import Sequence

from app.state.session import StageProgress
from app.state.talk.message import Message
from app.widgets.numbers import duration, grouped
from app.words import STAGES
from engine.protocol import Change, Stats

# What other ends there are stands in a line of its own (`app.views.talk.ending`).
ENDS = {"cancelled": "stopped", "failed": "failed", "edited": "edited"}
WAITING = "Waiting for the first token"
CHANGED = {"layer": "", "attention": "attention of ", "feed_forward": "feed-forward of "}


def summary(message: Message) -> str:
    """One quiet line under an answer, what matters most first: its end may be cut off."""
    stats, parts = message.stats, []
    if message.finish in ENDS:
        parts.append(ENDS[message.finish])
    if stats is not None and stats.n_generated:
        if stats.decode_rate:
            parts.append(f"{stats.decode_rate:.0f} t/s")
        parts.append(f"{grouped(_tokens(message))} tok")
        parts.append(f"TTFT {duration(stats.first_token_s)}")
    if stats is not None and stats.n_drafted:
        parts.append(f"{grouped(stats.n_accepted)} of {grouped(stats.n_drafted)} drafted")
    if stats is not None and stats.encode_s:
        parts.append(f"looked {duration(stats.encode_s)}")
    if stats is not None and stats.n_generated:
        parts.append(f"seed {stats.seed}")
    return "  ·  ".join(parts)


def said_of(change: Change) -> str:
    """Describe a change as under an answer: "layer 12 left out"."""
    head = "" if change.head is None else f"head {change.head}, "
    part = "" if change.head is not None else CHANGED[change.part]
    how = "left out" if change.factor == 0 else f"× {change.factor:g}"
    return f"{head}{part}layer {change.layer} {how}"


def said_of_all(changes: Sequence[Change], capital: bool = True) -> str:
    """All of them in one line, which begins with a capital or is a part of a sentence."""
    said = "; ".join(map(said_of, changes))
    return said[:1].upper() + said[1:] if capital else said


def stage_title(stage: StageProgress | None) -> str:
    """Return the title of the current stage; without a stage, or once the prompt is read, the first
    token is due.
    """
    if stage is not None and stage.note:
        return stage.note
    if stage is None or (stage.name == "prefill" and stage.done >= stage.total):
        return WAITING
    return STAGES[stage.name]


def which_block(stage: StageProgress) -> str:
    """Which picture the tower is at, which view of it and which block, where there are several."""
    said = []
    for what, at in (("picture", stage.picture), ("view", stage.view), ("block", stage.block)):
        if at is not None and at[1] > 1:
            said.append(f"{what} {at[0]} of {at[1]}")
    return ", ".join(said)


def stage_percent(stage: StageProgress) -> str:
    """How far it is, rounded down so that 100 % means done; empty while that is not known."""
    return f"{100 * stage.done // stage.total} %" if stage.total > 0 else ""


def stage_left(stage: StageProgress) -> str:
    """The time it may take still; empty where that is not known, or under a second."""
    if stage.left_s is None or stage.left_s < 1:
        return ""
    seconds = stage.left_s
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} min"


def details(message: Message) -> str:
    """All numbers of an answer, one per line."""
    stats = message.stats
    if stats is None:
        return ""
    lines = [
        f"Prompt: {grouped(stats.n_prompt)} tokens, {grouped(stats.n_cached)} from the cache",
        *_pictures(stats),
        f"Read in {duration(stats.prefill_s)}, {stats.prefill_rate:.0f} tokens per second",
        f"First token after {duration(stats.first_token_s)}",
        f"Answer: {grouped(_tokens(message))} tokens",
        f"Generated: {grouped(stats.n_generated)} tokens in {duration(stats.decode_s)},"
        f" {stats.decode_rate:.1f} per second",
        *_drafts(stats),
        f"Context: {grouped(stats.n_context)} tokens",
        f"Seed {stats.seed}",
        *([f"Modified model: {said_of_all(stats.changes)}"] if stats.changes else []),
    ]
    if stats.n_truncated:
        lines.append(f"{grouped(stats.n_truncated)} prompt tokens were dropped")
    if stats.n_shifts:
        lines.append(f"The oldest part of the context was dropped {stats.n_shifts} times")
    return "\n".join([*lines, *([] if stats.pictures else stats.notes)])


def _drafts(stats: Stats) -> list[str]:
    """Describe the tokens that were computed ahead."""
    if not stats.n_drafted:
        return []
    share = f"{grouped(stats.n_accepted)} of {grouped(stats.n_drafted)}"
    return [f"Speculation: {share} drafted tokens accepted, {stats.draft_gain:.2f} times plain"]


def _pictures(stats: Stats) -> list[str]:
    """Describe the tokens and the time of the prompt's pictures."""
    if not stats.pictures:
        return []
    count, rows = len(stats.pictures), stats.n_image_rows
    what = "picture" if count == 1 else f"{count} pictures"
    took = f" in {duration(stats.encode_s)}" if stats.encode_s else ", reused"
    seen = f"{grouped(rows)} token{'' if rows == 1 else 's'}"
    beside = sum(p.n_rows for p in stats.pictures if p.n_rows > p.n_tokens)
    if beside:  # those of a picture in the prompt are among its tokens
        seen += f", and {grouped(beside)} embeddings outside the context"
    return [f"Encoded the {what}{took}: {seen}", *stats.notes]


def _tokens(message: Message) -> int:
    """Tokens of the whole answer, also of those taken from another branch."""
    return message.n_tokens or (message.stats.n_generated if message.stats is not None else 0)
