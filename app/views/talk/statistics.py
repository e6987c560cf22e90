"""The numbers of an answer, in words."""

from app.state.talk.message import Message
from app.widgets.numbers import duration, grouped

ENDS = {
    "length": "reached the most tokens",
    "context": "the context is full",
    "cancelled": "stopped",
    "failed": "failed",
    "died": "the engine stopped",
    "edited": "edited",
}


def summary(message: Message) -> str:
    """One quiet line under an answer."""
    stats, parts = message.stats, []
    if stats is not None and stats.n_generated:
        if stats.decode_rate:
            parts.append(f"{stats.decode_rate:.0f} t/s")
        parts.append(f"{grouped(stats.n_generated)} tok")
        parts.append(f"TTFT {duration(stats.first_token_s)}")
        parts.append(f"seed {stats.seed}")
    if message.finish in ENDS:
        parts.append(ENDS[message.finish])
    if stats is not None and stats.n_shifts:
        parts.append("context shifted")
    return "  ·  ".join(parts)


def about(seconds: float) -> str:
    """A time that is only estimated."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def details(message: Message) -> str:
    """All of them, a line each."""
    stats = message.stats
    if stats is None:
        return ""
    lines = [
        f"Prompt: {grouped(stats.n_prompt)} tokens, {grouped(stats.n_cached)} from the cache",
        f"Read in {duration(stats.prefill_s)}, {stats.prefill_rate:.0f} tokens a second",
        f"First token after {duration(stats.first_token_s)}",
        f"Answer: {grouped(stats.n_generated)} tokens in {duration(stats.decode_s)},"
        f" {stats.decode_rate:.1f} a second",
        f"Context: {grouped(stats.n_context)} tokens",
        f"Seed {stats.seed}",
    ]
    if stats.n_truncated:
        lines.append(f"{grouped(stats.n_truncated)} tokens of the prompt were left out")
    if stats.n_shifts:
        lines.append(f"The oldest part of the context was dropped {stats.n_shifts} times")
    return "\n".join(lines)
