"""Lanes of devices with the model's layers as tiles, moved by mouse and by keyboard."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt, QVariantAnimation, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QStyle

from app.language import tr
from app.state.lab.shading import Shade
from app.state.layers.lanes import LayerTile, moved_tiles
from app.state.layers.layers import LayersState
from app.state.layers.words import describe_lane, describe_parts, describe_tiles
from app.state.selection import Selected
from app.theme import fonts
from app.theme.devices import lettered
from app.views.layers import paint
from app.views.layers.cursor import BoundaryDrag, LaneCursor, TileDrag
from app.views.layers.paint import LanesScene
from app.views.layers.picture import LanesPicture, Measures, ShownTile
from app.widgets.basics import LOOKS
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper, text_width

HEAD, GAP, REACH = 24, 12, 4
TILE, TALLEST = 64, 124
GLIDE_MS = 120
STAYS = tr("The cache stays with its layer. Move the layer instead.")
_ALT, _CTRL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
_SHIFT, _NONE = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier
_KEYPAD = Qt.KeyboardModifier.KeypadModifier


class LanesChart(Painted):
    """Shows `state.lanes()`. A tile stands for a layer, for several where one would be too narrow,
    or for a part of the layer that is opened.

    Arrows walk, with Shift they choose a range, Ctrl+A a row; Alt+Up and Alt+Down move what is
    chosen to the next device, Ctrl+Left and Ctrl+Right the boundary of the run; Enter opens, Esc
    puts back what is dragged or closes what is opened. The mouse drags tiles and boundaries.
    """

    pointed = Signal(object)  # ShownTile that the person went to
    device_picked = Signal(str)
    menu_wanted = Signal(QPoint)  # on the screen
    seen_wanted = Signal(QRect)  # the place of the keyboard, here
    described = Signal(str)  # what is chosen, in words
    refused = Signal(str)  # why a move moves nothing

    def __init__(self, state: LayersState) -> None:
        super().__init__(tr("Layers by device"))
        self.state = state
        self._room = 0.0
        self.walker = LaneCursor(LanesPicture((), 0, 1, self._measures()))
        self.marked = Selected()
        self.shade: Shade | None = None
        self._drag: TileDrag | BoundaryDrag | None = None
        self._landing: list[tuple[ShownTile, QPointF]] = []
        self._over: str | None = None
        self._glide = QVariantAnimation(self)
        self._glide.valueChanged.connect(lambda _: self.update())
        self._glide.finished.connect(self._landed)
        self.refresh()

    # What is shown

    def refresh(self) -> None:
        """Show the lanes as they are now; what is chosen stays so wherever it lies then."""
        answer = self.state.answer
        n_layer = answer.n_layer if answer is not None else 0
        width = max(self.width() - 1, 1)
        opened = self.walker.opened
        picture = LanesPicture(self.state.lanes(), n_layer, width, self._measures(), opened)
        self.walker.show(picture)
        self._describe()
        self.updateGeometry()
        self.update()

    def show_shade(self, shade: Shade | None) -> None:
        """Colour whole layers by these values; by device and part for None."""
        if shade != self.shade:
            self.shade = shade
            self._describe()
            self.update()

    @property
    def picture(self) -> LanesPicture:
        return self.walker.picture

    @property
    def is_dragging(self) -> bool:
        return self._drag is not None and self._drag.has_moved

    def set_room(self, height: float) -> None:
        """Lanes are as high as that allows, within bounds."""
        if height != self._room:
            self._room = height
            self.refresh()

    def go(self, tile: ShownTile | None, extend: bool = False) -> None:
        """The keyboard goes there; `extend` chooses all up to it, in its row."""
        if tile is not None:
            self.walker.go(tile, extend)
            self._describe()
            self.update()
            self.pointed.emit(tile)
            self.ensure_seen()

    def open(self, tile: ShownTile | None = None) -> None:
        """Show what is inside: the layers of a group, the parts of a layer."""
        tile = tile or self.walker.current
        if tile is not None and tile.opens:
            self.walker.opened = tile.key
            self.refresh()
            inside = (row.tiles[0] for row in self.picture.rows if row.opened)
            self.go(next(inside, None))

    def close_opened(self) -> bool:
        """Back to the tile that was opened; whether there was one."""
        opened, self.walker.opened = self.walker.opened, None
        if opened is not None:
            self.walker.at, self.walker.chosen = opened, []
            self.refresh()
            self.go(self.walker.current)
        return opened is not None

    def choose_row(self) -> None:
        """All tiles of the row."""
        self.walker.choose_row()
        self._describe()
        self.update()

    def move_taken(self, step: int) -> None:
        """What is chosen, to the lane above or below."""
        device = self.walker.other_lane(step)
        if device is not None:
            self.move_to(device)

    def move_to(self, device: str) -> None:
        """What is chosen, to that device."""
        taken, placed = self.walker.taken, self.state.placement
        if not taken or placed is None or taken[0].device == device:
            return
        tiles = [tile for shown in taken for tile in shown.tiles]
        parts = {part for shown in taken for part in shown.parts}
        if moved_tiles(placed, tiles, device, parts) == placed:
            self.refused.emit(STAYS)
        else:
            self.walker.carry(taken, device)
            self.state.move_tiles(tiles, device, parts)
            self.ensure_seen()

    def move_boundary(self, step: int) -> None:
        """The boundary of the run in which the keyboard is, by a layer."""
        boundary = self.walker.boundary()
        if boundary is not None:
            self.state.move_boundary(boundary, boundary + step)

    def cancel_drag(self) -> bool:
        """Put back what is in the hand; whether anything was."""
        drag, self._drag = self._drag, None
        if drag is not None:
            drag.cancel()
            self.unsetCursor()
            self.update()
        return drag is not None

    def show_selected(self, selected: Selected) -> None:
        """Mark the layer and the device that are selected, wherever that was done."""
        self.marked = selected
        if self.walker.follow(selected, lambda tile: tile.device == selected.device):
            self._describe()
        self.update()

    def ensure_seen(self) -> None:
        """Have the place of the keyboard scrolled into view."""
        current = self.walker.current
        if current is not None:
            self.seen_wanted.emit(current.area.toAlignedRect())

    def sentence(self) -> str:
        """What is chosen, in words."""
        answer, taken = self.state.answer, self.walker.taken
        if answer is None or not taken:
            return ""
        tiles = [tile for shown in taken for tile in shown.tiles]
        if taken[0].part:
            parts = [shown.part for shown in taken]
            return describe_parts(tiles[:1], parts, answer.n_layer, lettered)
        return self._described(tiles)

    # Keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, held = Qt.Key(event.key()), event.modifiers() & ~_KEYPAD
        sideways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        ends = {Qt.Key.Key_Home: -(1 << 20), Qt.Key.Key_End: 1 << 20}
        upright = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if key in (sideways | ends) and held in (_NONE, _SHIFT):
            self.go(self.walker.beside((sideways | ends)[key]), held == _SHIFT)
        elif key in sideways and held == _CTRL:
            self.move_boundary(sideways[key])
        elif key in upright and held == _NONE:
            self.go(self.walker.above(upright[key]))
        elif key in upright and held == _ALT:
            self.move_taken(upright[key])
        elif key == Qt.Key.Key_A and held == _CTRL:
            self.choose_row()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and held == _NONE:
            self.open()
        elif key == Qt.Key.Key_Escape and (self.cancel_drag() or self.close_opened()):
            return
        elif key == Qt.Key.Key_Menu or (key == Qt.Key.Key_F10 and held == _SHIFT):
            current = self.walker.current
            place = current.area.center() if current is not None else QPointF()
            self.menu_wanted.emit(self.mapToGlobal(place.toPoint()))
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        # Esc and Alt with arrows may be shortcuts of the window.
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
            and (self._drag is not None or self.walker.opened is not None)
        ):
            event.accept()
            return True
        return super().event(event)

    # Mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() != Qt.MouseButton.LeftButton:
            return
        place, placed = event.position(), self.state.placement
        boundary, tile = self.picture.boundary_at(place, REACH), self.picture.at(place)
        if placed is None:
            return
        if boundary is not None:
            picture = self.picture
            self._drag = BoundaryDrag(self.state, picture, placed, boundary, place, boundary)
        elif tile is not None:
            extend = bool(event.modifiers() & _SHIFT)
            if extend or tile.key not in self.walker.chosen:
                self.go(tile, extend)
            elif len(self.walker.chosen) == 1:  # something else may be selected now
                self.pointed.emit(tile)
            self._drag = TileDrag(self.state, self.walker.taken, place, placed, place)
        else:
            device = self.picture.device_at(place.y())
            if device is not None:
                self.device_picked.emit(device)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        place, shapes = event.position(), Qt.CursorShape
        if self._drag is not None:
            self._drag.move(place, self.picture)
            self.update()
        free = self._drag is None
        near = free and self.picture.boundary_at(place, REACH) is not None
        shape = shapes.ArrowCursor
        if near or isinstance(self._drag, BoundaryDrag):
            shape = shapes.SplitHCursor
        elif self.is_dragging:
            shape = shapes.ClosedHandCursor
        elif self.picture.at(place) is not None:
            shape = shapes.OpenHandCursor
        self.setCursor(shape)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        drag, tile = self._drag, self.picture.at(event.position())
        if drag is None or event.button() != Qt.MouseButton.LeftButton:
            return
        self._drag = None
        if drag.has_moved:
            if isinstance(drag, TileDrag):
                self._let_go(drag)
            drag.drop()
        elif len(self.walker.chosen) > 1 and tile is not None and not event.modifiers() & _SHIFT:
            self.go(tile)  # a click within what is chosen chooses it alone
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        tile = self.picture.at(event.position())
        if tile is not None:
            self.open(tile)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        tile = self.picture.at(QPointF(event.pos()))
        if tile is not None and tile.key not in self.walker.chosen:
            self.go(tile)
        self.menu_wanted.emit(event.globalPos())

    # Drawing

    def tall(self) -> float:
        return self.picture.height

    def draw(self, paper: Paper) -> None:
        self._scene().paint(paper)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.refresh()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self.refresh()

    def _scene(self) -> LanesScene:
        answer, drag = self.state.answer, self._drag
        labels = answer.labels if answer is not None else []
        carried, over = self._landing, self._over if self._landing else None
        if self._landing:
            left = 1.0 - self._glide.currentTime() / max(self._glide.duration(), 1)
            carried = [(tile, way * left) for tile, way in self._landing]
        elif isinstance(drag, TileDrag) and drag.has_moved:
            carried = [(tile, drag.at - drag.pressed) for tile in drag.shown]
            over = drag.device
        return LanesScene(
            self.picture,
            labels,
            self.walker.chosen,
            self.walker.at if self.hasFocus() else None,
            self.marked,
            carried,
            over,
            frozenset(paint.unusual_kinds(labels)) if labels else frozenset(),
            self.shade,
        )

    def _let_go(self, drag: TileDrag) -> None:
        if drag.is_idle:
            self.refused.emit(STAYS)
        elif drag.device is not None:
            self.walker.carry(drag.shown, drag.device)
        self._land(drag)

    def _land(self, drag: TileDrag) -> None:
        """From the hand to the place, where the desktop wants things to move."""
        hint = QStyle.StyleHint.SH_Widget_Animation_Duration
        duration = min(GLIDE_MS, self.style().styleHint(hint, None, self))
        if duration <= 0:
            return
        for shown in drag.shown:
            home, device = shown.tiles[0].home, drag.device or shown.device
            landed = self.picture.find((shown.layers, device, home, shown.part))
            if landed is not None:
                hand = shown.area.topLeft() + drag.at - drag.pressed
                self._landing.append((landed, hand - landed.area.topLeft()))
        self._over = drag.device
        self._glide.stop()
        self._glide.setDuration(duration)
        self._glide.setStartValue(0.0)
        self._glide.setEndValue(1.0)
        self._glide.start()

    def _landed(self) -> None:
        self._landing = []
        self.update()

    def _describe(self) -> None:
        text, n_layer = self.sentence(), self.picture.n_layer
        lanes = [describe_lane(lane, n_layer, lettered) for lane in self.picture.lanes]
        self.setAccessibleDescription(f"{text}. {'; '.join(lanes)}" if text else "")
        self.described.emit(text if self.walker.chosen else "")

    def tip(self, place: QPointF) -> str:
        tile, answer = self.picture.at(place), self.state.answer
        if tile is None or answer is None or self._drag is not None:
            return ""
        return self._described(tile.tiles)

    def _described(self, tiles: Sequence[LayerTile]) -> str:
        answer = self.state.answer
        text = describe_tiles(tiles, answer, lettered) if answer is not None else ""
        value = self.shade.words([tile.layer for tile in tiles]) if self.shade is not None else ""
        return f"{text}; {value}" if value else text

    def _measures(self) -> Measures:
        head = fonts.px(HEAD) * (2 if paint.two_lines(self.width()) else 1)
        rows = max(len(self.state.lane_devices()), 1)
        tile = self._room / rows - head - fonts.px(GAP)
        tile = min(max(tile, fonts.px(TILE)), fonts.px(TALLEST))
        return Measures(head, round(tile), fonts.px(GAP), text_width)
