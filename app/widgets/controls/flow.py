"""Widgets from left to right, in as many rows as their widths need."""

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.tokens import GRID
from app.widgets.basics import set_shown

GAP = GRID // 2
_WAS_SET = Qt.WidgetAttribute.WA_WState_ExplicitShowHide


class Flow(QWidget):
    """Hidden while it is empty. A widget wider than the flow gets the flow's width; a hidden one
    takes no room.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.items: list[QWidget] = []
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.hide()

    def show_items(self, items: list[QWidget]) -> None:
        """Replace the widgets."""
        for gone in self.items:
            gone.hide()
            gone.deleteLater()
        self.items = items
        for item in items:
            hidden = item.isHidden() and item.testAttribute(_WAS_SET)
            item.setParent(self)
            item.setVisible(not hidden)
        set_shown(self, bool(items))
        self._arrange()
        self.updateGeometry()

    def event(self, event: QEvent) -> bool:
        """A widget of it grew, was hidden or is shown again: arrange them anew."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
            self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()
        if self.heightForWidth(self.width()) != self.height():
            self.updateGeometry()  # its layout takes it to be as high as it was at the other width

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        return max((place.bottom() + 1 for place in self._places(width)), default=0)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(240, self.heightForWidth(max(1, self.width())))

    @property
    def _seen_items(self) -> list[QWidget]:
        return [item for item in self.items if not item.isHidden()]

    def _places(self, width: int) -> list[QRect]:
        places: list[QRect] = []
        left = top = height = 0
        for item in self._seen_items:
            hint = item.sizeHint()
            wide = min(hint.width(), width)
            if left and left + wide > width:
                left, top, height = 0, top + height + GAP, 0
            places.append(QRect(left, top, wide, hint.height()))
            left, height = left + wide + GAP, max(height, hint.height())
        return places

    def _arrange(self) -> None:
        for item, place in zip(self._seen_items, self._places(self.width()), strict=True):
            item.setGeometry(place)
