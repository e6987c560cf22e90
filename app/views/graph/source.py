"""The source of a kernel, as text to read."""

import re
from collections.abc import Callable
from importlib.resources import files

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import TEXT_SIZE, IconButton, label
from app.widgets.controls.elided import ElidedLabel


def kernel_source(kernel: str) -> str | None:
    """The text of `family.kernel`'s family; None where there is none: the host's are NumPy."""
    family, dot, _ = kernel.partition(".")
    if not dot or not re.fullmatch(r"\w+", family):
        return None
    path = files("kernels_cl") / f"{family}.cl"
    return path.read_text("utf-8") if path.is_file() else None


class KernelSource(QWidget):
    """Scrolled to the kernel; what its program is built with stands above."""

    def __init__(self, close: Callable[[], object]) -> None:
        super().__init__()
        self._close = close
        self.title = ElidedLabel(size="strong")
        self.defines = label(tone="quiet", size="small", wrap=True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Kernel source")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(fonts.mono())
        head = QHBoxLayout()
        head.setSpacing(GRID)
        head.addWidget(IconButton("chevron-left", "Back to the graph (Backspace)", close))
        head.addWidget(self.title, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self.defines)
        column.addWidget(self.text, 1)
        self.text.installEventFilter(self)

    def show_kernel(self, kernel: str, defines: str) -> None:
        source = kernel_source(kernel) or ""
        family, _, name = kernel.partition(".")
        self.title.setText(f"{family}.cl: {name}")
        self.defines.setText(f"built with {defines}" if defines else "")
        self.defines.setVisible(bool(defines))
        self.text.setPlainText(source)
        found = re.search(rf"__kernel[^;{{]*?\b{re.escape(name)}\s*\(", source)
        cursor = QTextCursor(self.text.document())
        cursor.setPosition(found.start() if found is not None else 0)
        self.text.setTextCursor(cursor)
        self.text.centerCursor()
        self.text.setFocus()

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        keys = (Qt.Key.Key_Backspace, Qt.Key.Key_Escape)
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            wanted = event.key() in keys
            if wanted:
                self._close()
            return wanted
        return False

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.text.setFont(fonts.mono())
