"""Numbers of an answer and of a stage of work, in words: one source for every place."""

from app.language import tr, tr_n
from app.state.session import StageProgress
from app.state.talk.edits import all_words
from app.state.talk.message import Message
from app.widgets.numbers import duration, grouped, whole_duration
from app.words import STAGES
from engine.protocol import Stats

# What other ends there are stands in a line of its own (`app.views.talk.ending`).
ENDS = {"cancelled": tr("stopped"), "failed": tr("failed"), "edited": tr("edited")}
WAITING = tr("Waiting for the first token")


def summary(message: Message) -> str:
    """One quiet line under an answer, what matters most first: its end may be cut off."""
    stats, parts = message.stats, []
    if message.finish in ENDS:
        parts.append(ENDS[message.finish])
    if stats is not None and stats.n_generated:
        if stats.decode_rate:
            parts.append(tr("{decode_rate:.0f} t/s", decode_rate=stats.decode_rate))
        parts.append(tr("{tokens} tok", tokens=grouped(_tokens(message))))
        parts.append(tr("TTFT {first_token_s}", first_token_s=duration(stats.first_token_s)))
    if stats is not None and stats.n_drafted:
        parts.append(
            tr(
                "{n_accepted} of {n_drafted} drafted",
                n_accepted=grouped(stats.n_accepted),
                n_drafted=grouped(stats.n_drafted),
            )
        )
    if stats is not None and stats.encode_s:
        parts.append(tr("looked {encode_s}", encode_s=duration(stats.encode_s)))
    return "  ·  ".join(parts)


def stage_title(stage: StageProgress | None) -> str:
    """Return the title of the current stage; without a stage, or once the prompt is read, the first
    token is due.
    """
    if stage is not None and stage.note:
        return stage.note
    if stage is None or (stage.name == "prefill" and stage.done >= stage.total):
        return WAITING
    return tr(STAGES[stage.name])


def which_block(stage: StageProgress) -> str:
    """Which picture the tower is at, which view of it and which block, where there are several."""
    parts = []
    for what, at in (
        (tr("picture"), stage.picture),
        (tr("view"), stage.view),
        (tr("block"), stage.block),
    ):
        if at is not None and at[1] > 1:
            parts.append(tr("{what} {at} of {count}", what=what, at=at[0], count=at[1]))
    return ", ".join(parts)


def stage_percent(stage: StageProgress) -> str:
    """How far it is, rounded down so that 100 % means done; empty while that is not known."""
    return f"{100 * stage.done // stage.total} %" if stage.total > 0 else ""


def stage_left(stage: StageProgress) -> str:
    """The time it may take still; empty where that is not known, or under a second."""
    if stage.left_s is None or stage.left_s < 1:
        return ""
    return tr("about {seconds}", seconds=whole_duration(stage.left_s))


def details(message: Message) -> str:
    """All numbers of an answer, one per line."""
    stats = message.stats
    if stats is None:
        return ""
    lines = [
        tr(
            "Prompt: {n_prompt} tokens, {n_cached} from the cache",
            n_prompt=grouped(stats.n_prompt),
            n_cached=grouped(stats.n_cached),
        ),
        *_pictures(stats),
        tr(
            "Read in {prefill_s}, {prefill_rate:.0f} tokens per second",
            prefill_s=duration(stats.prefill_s),
            prefill_rate=stats.prefill_rate,
        ),
        tr("First token after {first_token_s}", first_token_s=duration(stats.first_token_s)),
        tr("Answer: {tokens} tokens", tokens=grouped(_tokens(message))),
        tr(
            "Generated: {n_generated} tokens in {decode_s}, {decode_rate:.1f} per second",
            n_generated=grouped(stats.n_generated),
            decode_s=duration(stats.decode_s),
            decode_rate=stats.decode_rate,
        ),
        *_drafts(stats),
        tr("Context: {n_context} tokens", n_context=grouped(stats.n_context)),
        tr("Seed {seed}", seed=stats.seed),
        *([tr("Edits: {edits}", edits=all_words(message.edits))] if message.edits else []),
    ]
    if stats.n_truncated:
        lines.append(
            tr("{n_truncated} prompt tokens were dropped", n_truncated=grouped(stats.n_truncated))
        )
    if stats.n_shifts:
        lines.append(
            tr(
                "The oldest part of the context was dropped {n_shifts} times",
                n_shifts=stats.n_shifts,
            )
        )
    return "\n".join([*lines, *([] if stats.pictures else stats.notes)])


def _drafts(stats: Stats) -> list[str]:
    """Describe the tokens that were computed ahead."""
    if not stats.n_drafted:
        return []
    share = tr(
        "{n_accepted} of {n_drafted}",
        n_accepted=grouped(stats.n_accepted),
        n_drafted=grouped(stats.n_drafted),
    )
    return [
        tr(
            "Speculation: {share} drafted tokens accepted, {draft_gain:.2f} times plain",
            share=share,
            draft_gain=stats.draft_gain,
        )
    ]


def _pictures(stats: Stats) -> list[str]:
    """Describe the tokens and the time of the prompt's pictures."""
    if not stats.pictures:
        return []
    count, rows = len(stats.pictures), stats.n_image_rows
    what = tr("picture") if count == 1 else tr("{count} pictures", count=count)
    took = (
        tr(" in {encode_s}", encode_s=duration(stats.encode_s))
        if stats.encode_s
        else tr(", reused")
    )
    seen = tr_n("{n} token", "{n} tokens", rows)
    beside = sum(p.n_rows for p in stats.pictures if p.n_rows > p.n_tokens)
    if beside:  # those of a picture in the prompt are among its tokens
        seen += tr(", and {beside} embeddings outside the context", beside=grouped(beside))
    return [tr("Encoded the {what}{took}: {note}", what=what, took=took, note=seen), *stats.notes]


def _tokens(message: Message) -> int:
    """Tokens of the whole answer, also of those taken from another branch."""
    return message.n_tokens or (message.stats.n_generated if message.stats is not None else 0)
