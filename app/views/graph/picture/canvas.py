"""The graph to look at: zoomed and moved by mouse and keyboard, walked along its edges."""

from collections.abc import Sequence

from PySide6.QtCore import QBuffer, QEvent, QMarginsF, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtSvg import QSvgGenerator

from app.language import tr
from app.state.graph.overlay import Coloured
from app.state.graph.scene import APART, GraphScene, SceneBox, SceneCard
from app.theme import fonts
from app.theme.theme import tokens
from app.views.graph.picture.painting import Marks, ScenePainter
from app.widgets.basics import LOOKS
from app.widgets.plots.paper import Paper
from app.widgets.plots.stage import Stage

CLOSE = 1.0  # as large as text, in which an operation is looked at
MOST_FIT = 1.25
EDGE = 20  # around a scene in a file

_Key = Qt.Key


class GraphCanvas(Stage):
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
        super().__init__(name)
        self.scene: GraphScene | None = None
        self.marks = Marks()
        self._painter: ScenePainter | None = None
        self.coloured = Coloured()
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def show_scene(self, scene: GraphScene, coloured: Coloured) -> None:
        """Another scene or another overlay; the same place of it, where it is as large."""
        before = self.scene
        self.scene, self.coloured = scene, coloured
        self._painter = ScenePainter(scene, coloured)
        if before is None or (before.width, before.height) != (scene.width, scene.height):
            self.fit_all()
        self.update()

    def show_marks(self, marks: Marks) -> None:
        if marks != self.marks:
            self.marks = marks
            self.update()

    def whole(self) -> QRectF | None:
        if self.scene is None:
            return None
        return QRectF(0, -APART, self.scene.width, self.scene.height + APART)

    def largest(self) -> float:
        return MOST_FIT * self._readable()

    def fit_card(self, at: int) -> None:
        """One block; a tall one from its top, as large as it can be read."""
        if self.scene is not None:
            card = self.scene.cards[at]
            self.fit(QRectF(card.x, card.y, card.width, card.height))

    def scroll_to(self, number: int, close: bool = False) -> None:
        """Have a box in sight; `close` as large as can be read."""
        found = self.box_of(number)
        if found is None:
            return
        area, size = QRectF(found.x, found.y, found.width, found.height), self.room()
        if close and self.camera.scale < self._readable() * 0.8:
            self._area = None
            self.camera.scale = self._readable()
            self.camera.look_at(area.center(), size)
            if self.scene is not None:
                whole = QRectF(0, 0, self.scene.width, self.scene.height)
                self.camera.keep_within(whole, size)
        before = self.camera.left, self.camera.top
        self.camera.show_area(area, size)
        if before != (self.camera.left, self.camera.top):
            self._area = None
        self.update()

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

    def svg(self, title: str) -> bytes:
        """All of the scene at its own size, as SVG."""
        assert self.scene is not None
        written = QBuffer()
        whole = QRectF(0, 0, self.scene.width, self.scene.height)
        edged = whole.marginsAdded(QMarginsF(EDGE, EDGE, EDGE, EDGE))
        generator = QSvgGenerator()
        generator.setOutputDevice(written)
        generator.setSize(edged.toAlignedRect().size())
        generator.setViewBox(edged)
        generator.setTitle(title)
        painter = QPainter(generator)
        ScenePainter(self.scene, self.coloured).paint(painter, whole, 1.0, Marks())
        painter.end()
        return bytes(written.data().data())

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(420), fonts.px(320))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(160, 140)

    def draw_scene(self, paper: Paper) -> None:
        painter, scale = paper.painter, self.camera.scale
        paper.fill(paper.seen, tokens().panel)
        if self._painter is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, scale > 0.3)
            painter.save()
            painter.setTransform(self.camera.transform(), combine=True)
            self._painter.paint(painter, self.camera.visible(self.room()), scale, self.marks)
            painter.restore()

    # Mouse

    def clicked_at(self, place: QPointF) -> None:
        box, at = self._under(place)
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
            place = self.mapToGlobal(self.camera.transform().map(middle).toPoint())
        if number is not None:
            self.picked.emit(number)
            self.menu_wanted.emit(number, place)

    # Keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = _Key(event.key())
        shifted = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if key in (_Key.Key_Up, _Key.Key_Down) and not shifted:
            self.walked.emit(1 if key == _Key.Key_Down else -1)
        elif key in (_Key.Key_Left, _Key.Key_Right) and not shifted:
            self._sideways(1 if key == _Key.Key_Right else -1)
        elif key in (_Key.Key_PageUp, _Key.Key_PageDown):
            self.stepped.emit(1 if key == _Key.Key_PageDown else -1)
        elif key in (_Key.Key_Return, _Key.Key_Enter) and self.marks.selected is not None:
            self.opened.emit(self.marks.selected)
        elif key == _Key.Key_Backspace:
            self.gone_up.emit()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS and self.scene is not None:
            self._painter = ScenePainter(self.scene, self.coloured)
            if self._area is not None:
                self.fit(self._area)
            self.update()

    def _sideways(self, step: int) -> None:
        if self.marks.selected is not None:
            other = self.beside(self.marks.selected, step)
            if other is not None:
                self.picked.emit(other)

    def _readable(self) -> float:
        """The scale at which text is as large as elsewhere."""
        return CLOSE * fonts.px(100) / 100

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

    def tip(self, place: QPointF) -> str:
        box, at = self._under(place)
        if self.scene is None or at is None:
            return ""
        if box is None:
            card = self.scene.cards[at]
            return f"{card.title}: {card.note}"
        graph = self.scene.index.graph
        if box.kind == "launch":
            launch = graph.launches[box.number]
            return tr(
                "{kernels} on {device}: {note}",
                kernels=", ".join(launch.kernels),
                device=launch.device,
                note=box.note,
            )
        node = graph.nodes[box.number]
        return tr(
            "{title} on {device}: {note}\n{why}",
            title=box.title,
            device=node.device,
            note=box.note,
            why=node.why,
        )
