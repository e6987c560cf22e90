"""Texts on a picture: its size, its tokens, the expected time."""

from collections.abc import Iterator, Sequence

from app.language import tr, tr_n
from app.state.talk.message import Picture
from app.state.talk.pictures_in_engine import PicturesInEngine, PricedLimits
from app.widgets.numbers import duration, grouped
from app.widgets.pictures.card import DOT, Offered, PictureItem
from app.widgets.pictures.loader import PictureLoader
from engine.protocol import PictureLimits, PicturePlan

__all__ = ["DOT"]


def size(width: int, height: int) -> str:
    """Width and height in pixels."""
    return f"{grouped(width)} × {grouped(height)}"


def views(count: int) -> str:
    """How many images a model makes of it; nothing of one."""
    return tr("{count} views", count=count) if count > 1 else ""


def price(plans: Sequence[PicturePlan]) -> str:
    """Tokens that they take together, what layers of cross attention hold of them, which is not in
    the context, and the seconds where all of them were timed before.
    """
    beside = sum(plan.n_rows for plan in plans if plan.cross)
    held = tr("{beside} embeddings outside the context", beside=grouped(beside)) if beside else ""
    times = [plan.seconds for plan in plans]
    seconds = [time for time in times if time is not None]
    known = len(seconds) == len(times) > 0
    lasts = tr("about {seconds}", seconds=duration(sum(seconds))) if known else ""
    return DOT.join(filter(None, (tokens(sum(plan.n_tokens for plan in plans)), held, lasts)))


def tokens(count: int) -> str:
    """So many of them."""
    return tr_n("{n} token", "{n} tokens", count)


def limited(limits: PictureLimits) -> str:
    """Describe the limit of a picture."""
    if limits.one_view:
        return tr("Without tiles")
    return (
        tr("Model default")
        if limits.rows is None
        else tr("At most {tokens}", tokens=tokens(limits.rows))
    )


def offered(choices: Sequence[PricedLimits], now: PicturePlan) -> Iterator[Offered]:
    """Yield the possible limits, and mark the current one."""
    for choice in choices:
        plan = choice.plan
        takes = (
            tr("{n_rows} embeddings", n_rows=grouped(plan.n_rows))
            if plan.cross
            else tokens(plan.n_tokens)
        )
        yield Offered(limited(choice.limits), takes, plan.n_rows == now.n_rows)


def item(
    picture: Picture, in_engine: PicturesInEngine, loader: PictureLoader, editable: bool = False
) -> PictureItem:
    """A card for it, with what is known by now; with what else it may take, where `editable`."""
    path = in_engine.path(picture)
    info, loaded = in_engine.info(picture), loader.thumbnail(path)
    bad = in_engine.problem(picture) or (loaded.problem if loaded is not None else "")
    bad = bad.removeprefix("picture: ")  # who reads it does not know its name
    measured = info or (loaded if loaded is not None and loaded.width else None)
    plan = in_engine.plan(picture)
    first = size(measured.width, measured.height) if measured is not None else ""
    if plan is not None:
        first = DOT.join(filter(None, (first, views(len(plan.views)))))
    lines = (first or "…", price([plan]) if plan is not None else "")
    choices = in_engine.choices(picture) if editable else []
    others = tuple(offered(choices, plan)) if plan is not None else ()
    return PictureItem(path, picture.name, tuple(filter(None, lines)), bad, others)


def all_of(pictures: Sequence[Picture], in_engine: PicturesInEngine) -> str:
    """Describe several pictures together; nothing of one, whose card says it."""
    plans = [plan for plan in map(in_engine.plan, pictures) if plan is not None]
    if len(pictures) < 2 or len(plans) < len(pictures):
        return ""
    return DOT.join((tr("{pictures} pictures", pictures=len(pictures)), price(plans)))


def notes(pictures: Sequence[Picture], in_engine: PicturesInEngine) -> list[str]:
    """Return notes on changes to the pictures, such as cropping, each once."""
    named: dict[str, list[str]] = {}
    for picture in pictures:
        info = in_engine.info(picture)
        if info is not None:
            for note in (*info.notes, *(info.plan.notes if info.plan is not None else [])):
                named.setdefault(note, []).append(picture.name)
    return [
        f"{(names[0] if len(names) == 1 else tr('{names} pictures', names=len(names)))}: {note}"
        for note, names in named.items()
    ]
