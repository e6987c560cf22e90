"""What a widget paints as text, and where: for tests that look for words cut off or overlapping."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QPaintDevice,
    QPaintEngine,
    QPaintEngineState,
    QPainter,
    QRegion,
    QTextItem,
    QTransform,
)
from PySide6.QtWidgets import QAbstractScrollArea, QScrollArea, QWidget

from app.theme import fonts
from app.widgets.plots.stage import Stage

CUT_NUMBER = re.compile(r"^[\d.,:\u2009]+…$")
SLACK = 2.0  # pixels; descents of letters and italics reach over their boxes


@dataclass(frozen=True)
class Text:
    """A piece of text and its box, in the widget's coordinates; `clip` is where it can be seen."""

    text: str
    area: QRectF
    clip: QRectF | None
    code: bool = False  # of one width per letter: it scrolls sideways


class _Listener(QPaintEngine):
    def __init__(self) -> None:
        super().__init__(QPaintEngine.PaintEngineFeature.AllFeatures)
        self.texts: list[Text] = []
        self._transform = QTransform()

    def begin(self, device: QPaintDevice) -> bool:
        return True

    def end(self) -> bool:
        return True

    def type(self) -> QPaintEngine.Type:
        return QPaintEngine.Type.User

    def updateState(self, state: QPaintEngineState) -> None:  # noqa: N802
        if state.state() & QPaintEngine.DirtyFlag.DirtyTransform:
            self._transform = QTransform(state.transform())

    def drawTextItem(self, at: QPointF, item: QTextItem) -> None:  # noqa: N802
        height = item.ascent() + item.descent()
        area = QRectF(at.x(), at.y() - item.ascent(), item.width(), height)
        painter = self.painter()  # a clip may be older than the transform: it knows where it is now
        clip = (
            self._transform.mapRect(painter.clipBoundingRect()) if painter.hasClipping() else None
        )
        if item.text().strip():
            code = item.font().family() == fonts.mono().family()
            self.texts.append(Text(item.text(), self._transform.mapRect(area), clip, code))

    def drawPixmap(self, *_: object) -> None:  # noqa: N802
        pass

    def drawImage(self, *_: object) -> None:  # noqa: N802
        pass

    def drawPath(self, *_: object) -> None:  # noqa: N802
        pass

    def drawPolygon(self, *_: object) -> None:  # noqa: N802
        pass


class _Paper(QPaintDevice):
    def __init__(self, size: QSize) -> None:
        super().__init__()
        self.engine, self._size = _Listener(), size

    def paintEngine(self) -> QPaintEngine:  # noqa: N802
        return self.engine

    def metric(self, metric: QPaintDevice.PaintDeviceMetric) -> int:
        kind = QPaintDevice.PaintDeviceMetric
        known = {
            kind.PdmWidth: self._size.width(),
            kind.PdmHeight: self._size.height(),
            kind.PdmDepth: 32,
            kind.PdmNumColors: 1 << 24,
            kind.PdmDevicePixelRatio: 1,
            kind.PdmDevicePixelRatioScaled: 1 << 16,
        }
        return known.get(metric, 96)


def texts(widget: QWidget) -> list[Text]:
    """What the widget itself paints, without its children."""
    paper = _Paper(widget.size())
    painter = QPainter(paper)
    widget.render(painter, QPoint(), QRegion(), QWidget.RenderFlag(0))
    painter.end()
    return _joined(paper.engine.texts)


def _joined(found: list[Text]) -> list[Text]:
    """Text that is painted in pieces, each clipped to its own place, counts as one."""
    whole: dict[tuple[str, int, int], Text] = {}
    for text in found:
        key = text.text, round(text.area.x()), round(text.area.y())
        known = whole.get(key)
        clips = [t.clip for t in (known, text) if t is not None]
        clip = None if None in clips else clips[0] | clips[-1]
        whole[key] = Text(text.text, text.area, clip, text.code)
    return list(whole.values())


def faults(top: QWidget) -> Iterator[str]:
    """Numbers cut short, words beyond their widget's edge, and text over text."""
    for widget in [top, *top.findChildren(QWidget)]:
        if not widget.isVisible() or widget.visibleRegion().isEmpty():
            continue
        found = texts(widget)
        name = f"{type(widget).__name__} {widget.accessibleName() or widget.objectName()}".strip()
        for text in found:
            if CUT_NUMBER.search(text.text):
                yield f"{name}: number cut: {text.text!r}"
            yield from _beyond(name, widget, text)
        for at, one in enumerate(found):
            for other in found[at + 1 :]:
                both = _seen(one) & _seen(other)
                if both.width() > SLACK and both.height() > 2 * SLACK:
                    yield f"{name}: {one.text!r} lies over {other.text!r}"


def _beyond(name: str, widget: QWidget, text: Text) -> Iterator[str]:
    """Text that the widget's own edge, or the cell it was painted in, cuts."""
    room = QRectF(widget.rect())
    scrolls = isinstance(widget.parent(), QAbstractScrollArea) or isinstance(widget, Stage)
    for edge in [room] if text.clip is None else [room, text.clip]:
        if not edge.intersects(text.area):
            continue
        over = max(edge.left() - text.area.left(), text.area.right() - edge.right())
        above = max(edge.top() - text.area.top(), text.area.bottom() - edge.bottom())
        further = scrolls and edge.right() >= room.right() - 1  # one can scroll there
        if over > SLACK and not further and not text.code:
            yield f"{name}: {text.text!r} is {over:.0f} px too wide"
        if above > SLACK + 1 and not scrolls:
            yield f"{name}: {text.text!r} is {above:.0f} px too high"


def _seen(text: Text) -> QRectF:
    return text.area if text.clip is None else text.area & text.clip


def overlapping(top: QWidget) -> Iterator[str]:
    """Widgets of one layout that lie over each other, or beyond their parent's edge; contents
    wider than an area that does not scroll sideways.
    """
    for area in top.findChildren(QScrollArea):
        inside = area.widget()
        if inside is None or not area.isVisible():
            continue
        edge = area.viewport().width() - inside.x()
        reach = [w for w in inside.children() if isinstance(w, QWidget) and w.isVisible()]
        over = max((w.geometry().right() + 1 - edge for w in reach), default=0)
        never = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        if over > 1 and area.horizontalScrollBarPolicy() == never:
            yield f"{_named(inside)} is {over} px wider than what shows it"
    for parent in [top, *top.findChildren(QWidget)]:
        layout = parent.layout()
        if layout is None or not parent.isVisible() or parent.visibleRegion().isEmpty():
            continue
        items = [layout.itemAt(i).widget() for i in range(layout.count())]
        shown: list[tuple[QWidget, QRect]] = [
            (w, w.geometry()) for w in items if w is not None and w.isVisible()
        ]
        for at, (one, area) in enumerate(shown):
            for other, place in shown[at + 1 :]:
                both = area & place
                if both.width() > 1 and both.height() > 1 and one.parent() is other.parent():
                    yield f"{_named(one)} lies over {_named(other)} in {_named(parent)}"
            over = area.right() - parent.rect().right()
            if over > 1:
                yield f"{_named(one)} reaches {over} px beyond {_named(parent)}"


def _named(widget: QWidget) -> str:
    return f"{type(widget).__name__} {widget.accessibleName() or widget.objectName()}".strip()
