"""Picture as the model sees it of a picture: its views as they enter the tower, and its tokens."""

from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.client import Latest
from app.language import tr
from app.state.talk.message import Picture
from app.state.talk.pictures_in_engine import UNLIMITED
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.talk.pictures.words import DOT, limited, size, tokens
from app.widgets.basics import label, scrolled
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from app.widgets.pictures.pieces import PieceStrip, Token
from app.widgets.pictures.side_by_side import Cell, CellPictures, Tiled
from engine.protocol import (
    Failed,
    PicturePlan,
    PictureSeen,
    PictureView,
    RowsPiece,
    SeenView,
    ShowPicture,
    TextPiece,
)

ROLES = {"whole": tr("Whole picture"), "tile": tr("Tile"), "overview": tr("Overview")}


class SeenPicture(QWidget):
    """Asks the engine for one picture at a time. Cells and tokens mark each other."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._request = Latest(bench.client)
        self._picture: Picture | None = None
        self._plan: PicturePlan | None = None
        self._pixels: list[bytes] = []  # what the images lie in
        self.caption = label("", "quiet", wrap=True)
        self.facts = label("", "quiet", "small", wrap=True)
        self.here = label(" ", "", "small", wrap=True)
        self.views = CellPictures(tr("Picture as the model sees it"))
        self.strip = PieceStrip(tr("Tokens of the picture"))
        self._below = scrolled(self.strip)
        vbox(self.facts, self.caption, (self.views, 1), self.here, self._below, on=self)
        self.views.marked.connect(self._cell_marked)
        self.strip.marked.connect(self._token_marked)
        self.strip.moved_to.connect(
            lambda at: self._below.ensureVisible(at.x(), at.y(), GRID, 3 * GRID)
        )
        bench.chat.pictures_in_engine.changed.connect(self._send)
        self._say("")

    def show_picture(self, picture: Picture | None) -> None:
        """Request the open model's view of it; with None no longer."""
        self._picture, self._plan = picture, None
        self._request.forget()
        self._say(tr("Loading…") if picture is not None else "")
        self._send()

    def _send(self) -> None:
        picture, in_engine = self._picture, self._bench.chat.pictures_in_engine
        if picture is None or self._plan is not None:
            return
        if not in_engine.sees:
            who = self._bench.session.model_title
            open_one = tr("Open a vision model to see how it encodes the picture.")
            self._say(
                tr("{name} does not support pictures.", name=who)
                if in_engine.sees is False
                else open_one
            )
        elif in_engine.problem(picture):
            self._say(in_engine.problem(picture))
        elif in_engine.send([picture]):
            info = in_engine.info(picture)
            assert info is not None
            wanted = ShowPicture(0, info.digest, picture.limits)
            self._request.send(wanted, self._show, self._failed)

    def _failed(self, failed: Failed) -> None:
        if failed.pictures:
            self._bench.chat.pictures_in_engine.lost(failed.pictures)
            self._send()
        else:
            self._say(failed.message)

    def _say(self, text: str) -> None:
        """Words in place of the views."""
        self.caption.setText(text)
        self.caption.setVisible(bool(text))
        for part in (self.facts, self.views, self.here, self._below):
            part.setVisible(not text)

    def _show(self, seen: PictureSeen) -> None:
        plan = self._plan = seen.plan
        self._pixels = [view.pixels for view in seen.views]
        patches = tr("{n_patches} patches", n_patches=grouped(plan.n_patches))
        beside = tr(" outside the context") if plan.cross else ""
        self.facts.setText(
            DOT.join(
                (
                    tokens(plan.n_tokens),
                    tr(
                        "{n_rows} embeddings of {patches}{beside}",
                        n_rows=grouped(plan.n_rows),
                        patches=patches,
                        beside=beside,
                    ),
                    *self._limit,
                    *plan.notes,
                )
            )
        )
        self.views.show_pictures(
            [
                tiled_of(view, about, len(plan.views))
                for view, about in zip(seen.views, plan.views, strict=True)
            ]
        )
        self.strip.show_tokens(_tokens(plan))
        self._fit()
        self._say("")
        self._describe(None)

    @property
    def _limit(self) -> list[str]:
        """Describe the picture's limit, if it has one."""
        limits = self._picture.limits if self._picture is not None else UNLIMITED
        return [] if limits == UNLIMITED else [limited(limits).lower()]

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """The tokens take what they need, up to a third."""
        least = min(self.strip.sizeHint().height() + 2, self.height() // 3)
        self._below.setFixedHeight(least)

    def _cell_marked(self, cell: Cell) -> None:
        place = next((n for n, token in enumerate(self.strip.tokens) if token.cell == cell), None)
        self.strip.mark(place)
        self._describe(place, cell)

    def _token_marked(self, place: int) -> None:
        cell = self.strip.tokens[place].cell
        self.views.mark(cell)
        self._describe(place, cell)

    def _describe(self, place: int | None, cell: Cell | None = None) -> None:
        """Say what is marked."""
        parts: list[str] = []
        if place is not None:
            token, all_tokens = self.strip.tokens[place], self.strip.tokens
            if token.text:
                parts.append(tr("Text “{text}”", text=token.text))
            else:
                kind = tr("Learned embedding") if token.learned else tr("Embedding")
                beside = self._plan is not None and self._plan.cross
                number = sum(not before.text for before in all_tokens[: place + 1])
                count = sum(not other.text for other in all_tokens)
                where = tr(", for other layers, outside the context") if beside else ""
                parts.append(
                    tr(
                        "{kind} {number} of {count}{where}",
                        kind=kind,
                        number=grouped(number),
                        count=grouped(count),
                        where=where,
                    )
                )
        if cell is not None and self._plan is not None:
            view = self._plan.views[cell[0]]
            row, column = divmod(cell[1], view.columns)
            parts.append(f"{_title(view, len(self._plan.views))}, {size(view.width, view.height)}")
            parts.append(
                tr(
                    "cell {column} of {columns} from the left, {row} of {rows} from the top",
                    column=column + 1,
                    columns=view.columns,
                    row=row + 1,
                    rows=view.rows,
                )
            )
        text = DOT.join(parts) or tr("Hover over a cell or a token to see the matching one.")
        self.here.setText(text)
        self.views.setAccessibleDescription(text)
        self.strip.setAccessibleDescription(text)


def _title(view: PictureView, count: int) -> str:
    name = ROLES.get(view.role, view.role.capitalize())
    place = (
        tr(" row {row}, column {column}", row=view.row + 1, column=view.column + 1)
        if view.role == "tile"
        else ""
    )
    return f"{name}{place}" if count > 1 else name


def tiled_of(seen: SeenView, view: PictureView, count: int) -> Tiled:
    """One of `count` views with its cells; its image lies in the bytes of `seen`."""
    kind = QImage.Format.Format_RGB888
    image = QImage(seen.pixels, seen.width, seen.height, 3 * seen.width, kind)
    left, top, right, bottom = view.content
    tile = view.role == "tile"
    return Tiled(
        image,
        (
            f"{_title(view, count)}{DOT}{size(view.width, view.height)}",
            tr("row {row}, col {column}", row=view.row + 1, column=view.column + 1)
            if tile
            else _title(view, count),
        ),
        0 if tile or view.role == "whole" else 1,
        view.row if tile else 0,
        view.column if tile else 0,
        max(1, view.columns),
        max(1, view.rows),
        QRectF(left, top, right - left, bottom - top),
    )


def _tokens(plan: PicturePlan) -> list[Token]:
    """In the order of the prompt; of a model that looks at them from other layers, after it."""
    found: list[Token] = []
    pieces = list(plan.pieces)
    if plan.cross:
        views = enumerate(plan.views)
        pieces += [RowsPiece(n, 0, v.extras + v.rows * v.columns) for n, v in views]
    for piece in pieces:
        if isinstance(piece, TextPiece):
            found.append(Token(piece.text.replace("\n", "⏎")))
        elif isinstance(piece, RowsPiece):
            view = plan.views[piece.view]
            for row in range(piece.first, piece.first + piece.count):
                cell = row - view.extras
                inside = 0 <= cell < view.rows * view.columns
                found.append(Token(cell=(piece.view, cell) if inside else None))
        else:
            found.append(Token(learned=True))
    return found
