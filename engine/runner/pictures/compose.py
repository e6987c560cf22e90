"""From a rendered chat with marks for its pictures to the items of a prompt."""

from collections.abc import Sequence

from engine.images.plan import ImagePlan, Limits, Rows, Text
from engine.protocol import PicturePart, PlacedRows
from engine.runner.pictures.items import Item, PictureRow, Shown, runs
from engine.runner.pictures.marking import BREAK
from engine.runner.pictures.viewer import Viewer
from engine.tokenizer import Tokenizer


def compose(
    tokenizer: Tokenizer, viewer: Viewer, text: str, parts: Sequence[PicturePart]
) -> tuple[list[Item], list[Shown]]:
    """The items of `text`, and its pictures by their number in the chat.

    Texts that belong to a picture are joined with those around before they become tokens. Raises
    `TemplateError`, `UnknownPictures`.
    """
    first, *others = viewer.marking.chunks(text, len(parts))
    viewer.album.check(part.digest for part in parts)
    items: list[Item] = []
    pictures: list[Shown] = []
    run, is_begun = first, False
    for part, chunk in zip(parts, others, strict=True):
        picture = shown(tokenizer, viewer, part)
        run += picture.plan.counted.format(len(pictures))
        pictures.append(picture)
        index = 0
        for piece in picture.plan.pieces:
            if isinstance(piece, Text) and not picture.plan.cross:
                run += piece.text
                continue
            items += _encoded(tokenizer, run, is_begun)
            run, is_begun = "", True
            count = piece.count if isinstance(piece, Rows) else 1
            items += [PictureRow(picture, i) for i in range(index, index + count)]
            index += count
        run += chunk
    return [*items, *_encoded(tokenizer, run, is_begun)], pictures


def shown(tokenizer: Tokenizer, viewer: Viewer, part: PicturePart) -> Shown:
    """A picture by its plan. Raises `UnknownPictures`."""
    limits = viewer.within(Limits(part.limits.rows, part.limits.one_view))
    size = viewer.album.look(part.digest).size
    plan = viewer.tower.plan(size, limits)
    before, after = _edges(plan)
    begin, end = (tuple(tokenizer.encode(t, add_special=False)) for t in (before, after))
    marker = plan.pieces[0]
    token = tokenizer.id(marker.text) if plan.cross and isinstance(marker, Text) else None
    return Shown(part.digest, limits, size, plan, begin, end, -1 if token is None else token)


def n_tokens(tokenizer: Tokenizer, plan: ImagePlan) -> int:
    """Return the number of context tokens of a picture: its rows and the tokens of its texts."""
    texts = [piece.text for piece in plan.pieces if isinstance(piece, Text)]
    texts.append(plan.counted.format(0))
    rows = 0 if plan.cross else plan.rows
    return rows + sum(len(tokenizer.encode(text, add_special=False)) for text in texts)


def placed_rows(items: Sequence[Item], pictures: Sequence[Shown]) -> list[PlacedRows]:
    """Where rows of pictures lie among the items, a view at a time."""
    found: list[PlacedRows] = []
    number = 0
    for run in runs(items):
        if run.first == 0:
            number += 1
        picture, at = run.picture, run.begin
        for piece in _pieces(picture, run.first, run.first + run.end - run.begin):
            found.append(PlacedRows(number, picture.digest, *piece, at))
            at += piece[2]
    return found


def _pieces(picture: Shown, begin: int, end: int) -> list[tuple[int, int, int]]:
    """(view, first, count) of the rows from `begin` up to `end`; a learned one is of view -1."""
    found, index = [], 0
    for piece in picture.plan.pieces:
        if isinstance(piece, Text):
            continue
        count = piece.count if isinstance(piece, Rows) else 1
        low, high = max(begin, index), min(end, index + count)
        if low < high and isinstance(piece, Rows):
            found.append((piece.view, piece.first + low - index, high - low))
        elif low < high:
            found.append((-1, 0, 1))
        index += count
    return found


def _edges(plan: ImagePlan) -> tuple[str, str]:
    """The texts before a plan's first row and behind its last, without spaces around."""
    kinds = [isinstance(piece, Text) for piece in plan.pieces]
    if all(kinds):
        return "", ""
    first, last = kinds.index(False), len(kinds) - kinds[::-1].index(False)
    texts = [p.text if isinstance(p, Text) else "" for p in plan.pieces]
    return "".join(texts[:first]).strip(), "".join(texts[last:]).strip()


def _encoded(tokenizer: Tokenizer, text: str, is_begun: bool) -> list[int]:
    """Ids of a run of text; where somebody typed a marker it is text."""
    head, *rest = text.split(BREAK)
    ids = tokenizer.encode(head, add_special=False) if is_begun else tokenizer.encode_prompt(head)
    for part in rest:
        ids += tokenizer.encode(part, add_special=False, continues=True)
    return ids
