"""The graph to look at: zoomed and moved by mouse and keyboard, walked along its edges."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QSizePolicy

from app.state.graph.overlay import Coloured
from app.state.graph.scene import APART, GraphScene, SceneBox, SceneCard
from app.theme import fonts
from app.theme.theme import tokens
from app.views.graph.picture.camera import Camera
from app.views.graph.picture.painting import Marks, ScenePainter
from app.widgets.basics import LOOKS
from app.widgets.tips import show_tip

CLOSE = 1.0  # as large as text, in which an operation is looked at
MOST_FIT = 1.25
STEP, TURN = 1.25, 120.0  # zoomed by a key or a notch of the wheel, of so many eighths of a degree
NUDGE = 60.0  # pixels moved by a key
DRAGGED = 4  # pixels from which on a press is no click

_Key = Qt.Key
_MOVES = {
    _Key.Key_Left: (1, 0),
    _Key.Key_Right: (-1, 0),
    _Key.Key_Up: (0, 1),
    _Key.Key_Down: (0, -1),
}


class GraphCanvas(QAbstractScrollArea):
    """Shows a scene. Down goes to what reads the present box, Up to what it reads, Left and Right
    to its neighbours; Enter opens, Backspace goes up; + and - zoom, 0 shows all.
    """

    picked = Signal(int)  # the number of a box: a node's, or a launch's
    opened = Signal(int)
    walked = Signal(int)  # -1 to what the present box reads, 1 to what reads it
    stepped = Signal(int)  # to the block before or behind
    gone_up = Signal()
    menu_wanted = Signal(int, QPoint)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.camera = Camera()
        self.scene: GraphScene | None = None
        self.marks = Marks()
        self._painter: ScenePainter | None = None
        self.coloured = Coloured()
        self._area: QRectF | None = None  # what is fitted until somebody moves
        self._pressed: QPointF | None = None
        self._at: QPointF | None = None
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.viewport().installEventFilter(self)

    def show_scene(self, scene: GraphScene, coloured: Coloured) -> None:
        """Another scene or another overlay; the same place of it, where it is as large."""
        before = self.scene
        self.scene, self.coloured = scene, coloured
        self._painter = ScenePainter(scene, coloured)
        if before is None or (before.width, before.height) != (scene.width, scene.height):
            self.fit_all()
        self.viewport().update()

    def show_marks(self, marks: Marks) -> None:
        if marks != self.marks:
            self.marks = marks
            self.viewport().update()

    def fit_all(self) -> None:
        """All blocks."""
        if self.scene is not None:
            self._fit(QRectF(0, -APART, self.scene.width, self.scene.height + APART))

    def fit_card(self, at: int) -> None:
        """One block; a tall one from its top, as large as it can be read."""
        if self.scene is not None:
            card = self.scene.cards[at]
            self._fit(QRectF(card.x, card.y, card.width, card.height))

    def bring_in(self, number: int, close: bool = False) -> None:
        """Have a box in sight; `close` as large as can be read."""
        found = self.box_of(number)
        if found is None:
            return
        area, size = QRectF(found.x, found.y, found.width, found.height), self._size()
        if close and self.camera.scale < self._readable() * 0.8:
            self._area = None
            self.camera.scale = self._readable()
            self.camera.look_at(area.center(), size)
            if self.scene is not None:
                whole = QRectF(0, 0, self.scene.width, self.scene.height)
                self.camera.keep_within(whole, size)
        before = self.camera.left, self.camera.top
        self.camera.bring_in(area, size)
        if before != (self.camera.left, self.camera.top):
            self._area = None
        self.viewport().update()

    def box_of(self, number: int) -> SceneBox | None:
        """The box of a node or launch, if it is drawn; ports are of others."""
        for card in self.scene.cards if self.scene is not None else ():
            for box in card.boxes:
                if box.number == number and box.kind != "port":
                    return box
        return None

    def card_of(self, number: int) -> int | None:
        """The place of the card that a node or launch is drawn on."""
        for at, card in enumerate(self.scene.cards if self.scene is not None else ()):
            if any(box.number == number and box.kind != "port" for box in card.boxes):
                return at
        return None

    def beside(self, number: int, step: int) -> int | None:
        """The neighbour of a box in its rank."""
        at, box = self.card_of(number), self.box_of(number)
        if at is None or box is None or self.scene is None:
            return None
        row = [b for b in self.scene.cards[at].boxes if b.y == box.y and b.kind != "port"]
        row.sort(key=lambda b: b.x)
        place = row.index(box) + step
        return row[place].number if 0 <= place < len(row) else None

    def paint_onto(self, painter: QPainter) -> None:
        """All of the scene at its own size, for a file."""
        assert self.scene is not None
        whole = ScenePainter(self.scene, self.coloured)
        area = QRectF(0, 0, self.scene.width, self.scene.height)
        whole.paint(painter, area, 1.0, Marks())

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(420), fonts.px(320))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(160, 140)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self.viewport()), tokens()
        painter.fillRect(self.viewport().rect(), QColor(now.panel))
        if self._painter is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, self.camera.scale > 0.3)
            painter.setTransform(self.camera.transform())
            visible = self.camera.visible(self._size())
            self._painter.paint(painter, visible, self.camera.scale, self.marks)
            painter.resetTransform()
        if self.hasFocus():
            painter.setPen(QPen(QColor(now.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.viewport().rect().adjusted(0, 0, -1, -1))
        painter.end()

    # Mouse

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        turned = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier or turned.x():
            self._move(QPointF(turned.x() or turned.y(), 0) / 2)
        else:
            self._zoom(STEP ** (turned.y() / TURN), event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._pressed = self._at = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None or self._at is None:
            return
        if (event.position() - self._pressed).manhattanLength() > DRAGGED:
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
            self._move(event.position() - self._at)
            self._at = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        pressed, self._pressed = self._pressed, None
        self.viewport().unsetCursor()
        if pressed is None or (event.position() - pressed).manhattanLength() > DRAGGED:
            return
        box, at = self._under(event.position())
        if box is not None:
            self.picked.emit(box.number)
        elif at is not None and self.camera.scale < self._readable() / 2:
            self.fit_card(at)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        box, at = self._under(event.position())
        if box is not None:
            self.opened.emit(box.number)
        elif at is not None:
            self.fit_card(at)
        else:
            self.fit_all()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        number, place = self.marks.selected, event.globalPos()
        if not by_key:
            box, _ = self._under(QPointF(event.pos()))
            number = None if box is None else box.number
        elif number is not None and (known := self.box_of(number)) is not None:
            middle = QPointF(known.x + known.width / 2, known.y + known.height)
            place = self.viewport().mapToGlobal(self.camera.transform().map(middle).toPoint())
        if number is not None:
            self.picked.emit(number)
            self.menu_wanted.emit(number, place)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """What the mouse rests on is said in a tip."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            box, at = self._under(QPointF(event.pos()))
            show_tip(event.globalPos(), self._tip(box, at), self)
            return True
        return super().eventFilter(watched, event)

    # Keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, middle = _Key(event.key()), QPointF(self.viewport().rect().center())
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and key in _MOVES:
            self._move(QPointF(*_MOVES[key]) * NUDGE)
        elif key in (_Key.Key_Up, _Key.Key_Down):
            self.walked.emit(1 if key == _Key.Key_Down else -1)
        elif key in (_Key.Key_Left, _Key.Key_Right):
            self._sideways(1 if key == _Key.Key_Right else -1)
        elif key in (_Key.Key_PageUp, _Key.Key_PageDown):
            self.stepped.emit(1 if key == _Key.Key_PageDown else -1)
        elif key in (_Key.Key_Plus, _Key.Key_Equal):
            self._zoom(STEP, middle)
        elif key == _Key.Key_Minus:
            self._zoom(1 / STEP, middle)
        elif key in (_Key.Key_0, _Key.Key_Home):
            self.fit_all()
        elif key in (_Key.Key_Return, _Key.Key_Enter) and self.marks.selected is not None:
            self.opened.emit(self.marks.selected)
        elif key == _Key.Key_Backspace:
            self.gone_up.emit()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if self._area is not None:
            self._fit(self._area)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS and self.scene is not None:
            self._painter = ScenePainter(self.scene, self.coloured)
            if self._area is not None:
                self._fit(self._area)
            self.viewport().update()

    def _sideways(self, step: int) -> None:
        if self.marks.selected is not None:
            other = self.beside(self.marks.selected, step)
            if other is not None:
                self.picked.emit(other)

    def _fit(self, area: QRectF) -> None:
        self._area = area
        self.camera.fit(area, self._size(), MOST_FIT * self._readable())
        self.viewport().update()

    def _move(self, by: QPointF) -> None:
        self._area = None
        self.camera.move(by)
        self.viewport().update()

    def _zoom(self, factor: float, at: QPointF) -> None:
        self._area = None
        self.camera.zoom(factor, at)
        self.viewport().update()

    def _readable(self) -> float:
        """The scale at which text is as large as elsewhere."""
        return CLOSE * fonts.px(100) / 100

    def _size(self) -> QSizeF:
        return QSizeF(self.viewport().size())

    def _under(self, at: QPointF) -> tuple[SceneBox | None, int | None]:
        """The box and the card below a point of the widget."""
        point = self.camera.scene_point(at)
        cards: Sequence[SceneCard] = self.scene.cards if self.scene is not None else ()
        for number, card in enumerate(cards):
            if QRectF(card.x, card.y, card.width, card.height).contains(point):
                for box in card.boxes:
                    if QRectF(box.x, box.y, box.width, box.height).contains(point):
                        return box, number
                return None, number
        return None, None

    def _tip(self, box: SceneBox | None, at: int | None) -> str:
        if self.scene is None or at is None:
            return ""
        if box is None:
            card = self.scene.cards[at]
            return f"{card.title}: {card.note}"
        graph = self.scene.index.graph
        if box.kind == "launch":
            launch = graph.launches[box.number]
            return f"{', '.join(launch.kernels)} on {launch.device}: {box.note}"
        node = graph.nodes[box.number]
        return f"{box.title} on {node.device}: {box.note}\n{node.why}"
