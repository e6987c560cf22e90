"""The picture that was looked at most, its patches as bright as they were looked at."""

from PySide6.QtWidgets import QWidget

from app.client import Latest
from app.language import tr
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.talk.pictures.seen import tiled_of
from app.views.token.section import percent
from app.widgets.basics import label, set_height
from app.widgets.layouts import vbox
from app.widgets.pictures.side_by_side import Cell, CellPictures
from app.widgets.tips import set_tip
from engine.protocol import Failed, PictureLimits, PicturePlan, PictureSeen, PlacedRows, ShowPicture

HIGH = 220  # pixels


class LookedAtPicture(QWidget):
    """Shows nothing where the context has no picture."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state, self._chat = bench.token, bench.chat
        self._request = Latest(bench.client)
        self._wanted: int | None = None  # the picture that a person chose
        self._seen: tuple[str, PictureLimits] | None = None  # what is shown, or requested
        self._plan: PicturePlan | None = None
        self._pixels: list[bytes] = []  # what the images lie in
        self.caption = label("", "quiet", "small", wrap=True)
        self.views = CellPictures(tr("Attention by patch of the picture"))
        self.views.marked.connect(self._describe)
        vbox(self.caption, self.views, on=self, margins=(0, GRID, 0, 0), spacing=GRID // 2)
        set_height(self.views, HIGH)
        self.hide()

    def choose(self, picture: int) -> None:
        """Show that one, as long as it is among the word's sources."""
        self._wanted = picture
        self.refresh()
        self.views.setFocus()

    def refresh(self) -> None:
        """Show the picture that was chosen, or the one with the largest share of the sources."""
        strongest = self._strongest()
        self.setVisible(strongest is not None)
        if strongest is None:
            self._request.forget()
            self._seen = self._plan = None
            return
        rows, share = strongest
        self.caption.setText(
            tr(
                "Picture {picture} received {share} of the attention.",
                picture=rows.picture,
                share=percent(share),
            )
        )
        seen = rows.digest, self._limits(rows)
        if seen != self._seen:
            self._seen, self._plan = seen, None
            self.views.show_pictures([])
            self._request.send(ShowPicture(0, *seen), self._show, self._failed)
        self._shade()

    def weights(self) -> dict[Cell, float]:
        """The share of each cell of the picture shown."""
        sources, plan, strongest = self._state.sources, self._plan, self._strongest()
        if sources is None or plan is None or strongest is None:
            return {}
        found: dict[Cell, float] = {}
        for (picture, view), rows in sources.of_rows().items():
            if picture == strongest[0].picture and view < len(plan.views):
                cells = plan.views[view].rows * plan.views[view].columns
                for row, share in rows.items():
                    cell = row - plan.views[view].extras
                    if 0 <= cell < cells:
                        found[view, cell] = share
        return found

    def _strongest(self) -> tuple[PlacedRows, float] | None:
        """A piece of the picture that is shown, and its share."""
        sources, inside = self._state.sources, self._state.inside
        if sources is None or inside is None or inside.context is None:
            return None
        shares = sources.of_pictures()
        if not shares:
            return None
        largest = max(shares, key=lambda picture: shares[picture])
        most = self._wanted if self._wanted in shares else largest
        piece = next(rows for rows in inside.context.rows if rows.picture == most)
        return piece, shares[most]

    def _limits(self, rows: PlacedRows) -> PictureLimits:
        """What the picture may take: one that is given twice may have been limited once."""
        path = self._chat.path
        digests = self._chat.pictures_in_engine.digests(path)
        pictures = (picture for message in path for picture in message.pictures)
        alike = {
            number: one.limits
            for number, one in enumerate(pictures, 1)
            if digests.get(one.hash) == rows.digest
        }
        return alike.get(rows.picture) or next(iter(alike.values()), PictureLimits())

    def _show(self, seen: PictureSeen) -> None:
        self._plan = seen.plan
        self._pixels = [view.pixels for view in seen.views]
        views = zip(seen.views, seen.plan.views, strict=True)
        self.views.show_pictures([tiled_of(view, about, len(seen.views)) for view, about in views])
        self._shade()

    def _failed(self, failed: Failed) -> None:
        self.caption.setText(failed.message)

    def _shade(self) -> None:
        weights = self.weights()
        most = max(weights.values(), default=0.0)
        strengths = {cell: (share / most) ** 0.5 for cell, share in weights.items() if most > 0}
        self.views.shade(strengths)
        if self.views.cell is not None:
            self._describe(self.views.cell)

    def _describe(self, cell: Cell) -> None:
        share = self.weights().get(cell)
        if share is not None and self._plan is not None:
            row, column = divmod(cell[1], self._plan.views[cell[0]].columns)
            text = tr(
                "Patch {column} from the left, {row} from the top: {share}",
                column=column + 1,
                row=row + 1,
                share=percent(share),
            )
            self.views.setAccessibleDescription(text)
            set_tip(self.views, text)
