"""Pictures: brought to the engine once, named by their digest, shown as a model sees them.

Sizes are width and height in pixels, places count from the top left. A row is one embedding that
takes the place of a token.
"""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request, StageName

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""


class PictureLimits(msgspec.Struct, frozen=True):
    """Limits of one picture, within the engine's options and the context.

    `rows` is the most embeddings of it (None: no limit of its own); `one_view` leaves out the tiles
    of a picture. Models that cannot do with less take no notice.
    """

    rows: int | None = None
    one_view: bool = False


class PictureView(msgspec.Struct, frozen=True):
    """One image that the tower sees: all of a picture, or a tile of it.

    It is `width` x `height` with its padding; inside `content` lies what `source` is in the
    picture. `role` is whole, tile or overview, `row` and `column` are a tile's place among the
    tiles. Its first `extras` embeddings stand for no place; embedding extras + i is that of the
    cell (i // columns, i % columns) of `rows` x `columns` that cover it.
    """

    width: int
    height: int
    source: Box
    content: Box
    role: str
    row: int
    column: int
    columns: int
    rows: int
    extras: int = 0


class TextPiece(msgspec.Struct, frozen=True, tag="text"):
    """Text that stands among a picture's rows, such as the token that begins it."""

    text: str


class RowsPiece(msgspec.Struct, frozen=True, tag="rows"):
    """`count` embeddings of a view, from its row `first` on."""

    view: int
    first: int
    count: int


class LearnedPiece(msgspec.Struct, frozen=True, tag="learned"):
    """One embedding that the model has learned, such as the end of a line of tiles."""

    name: str


class PicturePlan(msgspec.Struct, frozen=True):
    """The plan of a picture of that size in the open model, in order of the prompt.

    It takes `n_tokens` of the context, its markers included, and the tower computes `n_patches`:
    in `seconds`, where this tower has been timed here. Where `cross`, the rows are not in the
    prompt; other layers look at them. `notes` show what was cut or enlarged.
    """

    views: list[PictureView]
    pieces: list[TextPiece | RowsPiece | LearnedPiece]
    n_tokens: int
    n_rows: int
    n_patches: int
    cross: bool = False
    seconds: float | None = None
    notes: list[str] = []


class PictureInfo(Reply, frozen=True):
    """The engine holds this picture. Its digest is of the pixels, turned as they are meant to be.

    `plan` is None where no model is open that sees; `notes` show how the file was read.
    """

    digest: str
    width: int
    height: int
    notes: list[str]
    plan: PicturePlan | None = None


class PutPicture(Request[PictureInfo], frozen=True):
    """Bring a picture: the bytes of its file, in any format that is read. It is planned within
    `limits`, and kept without them.
    """

    between: ClassVar[bool] = True

    stage: ClassVar[StageName] = "decode"

    data: bytes
    limits: PictureLimits = PictureLimits()


class PicturePlans(Reply, frozen=True):
    """One plan for each that was requested."""

    plans: list[PicturePlan]


class PlanPictures(Request[PicturePlans], frozen=True):
    """Plan pictures of these sizes (width, height) in the open model; no pixel is read.

    `limits` are those of each, in the same order; without any none is limited. Refused where the
    open model does not see.
    """

    between: ClassVar[bool] = True

    sizes: list[tuple[int, int]]
    limits: list[PictureLimits] = []


class SeenView(msgspec.Struct, frozen=True):
    """The pixels of a view as they enter the tower, before they are normalised: RGB, row by row."""

    width: int
    height: int
    pixels: bytes


class PictureSeen(Reply, frozen=True):
    """A picture as the open model sees it: pixels for each view of the plan."""

    digest: str
    plan: PicturePlan
    views: list[SeenView]


class ShowPicture(Request[PictureSeen], frozen=True):
    """Cut and resize a picture that the engine holds as for the open model's tower."""

    between: ClassVar[bool] = True

    stage: ClassVar[StageName] = "decode"

    digest: str
    limits: PictureLimits = PictureLimits()


class PictureStats(msgspec.Struct, frozen=True):
    """One picture of an answer's prompt, in the order of the messages: its number counts from 1.

    `encode_s` is what the tower took for this answer; 0 where its rows were still there.
    """

    number: int
    digest: str
    width: int
    height: int
    n_tokens: int
    n_rows: int
    views: list[tuple[int, int]]
    encode_s: float


class PlacedRows(msgspec.Struct, frozen=True):
    """Where rows of a picture lie in a prompt: `count` tokens from the one at `token` on.

    They are those from row `first` of a view on; `picture` counts the conversation's from 1.
    """

    picture: int
    digest: str
    view: int
    first: int
    count: int
    token: int
