"""A person before the window: has eyes, a mouse and a keyboard, and nothing else."""

from collections.abc import Callable, Iterator

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.views.talk.message import MessageView
from app.widgets.markdown.places import units
from app.widgets.markdown.view import MarkdownView
from app.window.main_window import MainWindow

PATIENCE_MS = 120_000  # only ends what hangs
LONGEST_WALK = 120  # presses of Tab
_NONE = Qt.KeyboardModifier.NoModifier
_LEFT = Qt.MouseButton.LeftButton


class Person:
    """Events go to the window's surface, so what is covered, hidden or disabled gets none."""

    def __init__(self, qtbot: QtBot, window: MainWindow) -> None:
        self._qtbot, self.window, self.bench = qtbot, window, window.bench
        self.clicks = 0
        window.activateWindow()  # a screen without a window manager leaves that to us
        self.wait(window.isActiveWindow)

    def wait(self, condition: Callable[[], object]) -> None:
        """Until something is true; what the window does meanwhile, it does."""
        self._qtbot.waitUntil(lambda: bool(condition()), timeout=PATIENCE_MS)

    def look(self, milliseconds: int = 60) -> None:
        """Let the window draw what it has."""
        self._qtbot.wait(milliseconds)

    # Eyes

    def all_named(self, name: str) -> list[QWidget]:
        """What can be seen and is called so, or begins so where `name` ends with an ellipsis."""
        found = [w for w in self._seen() if _is_called(w.accessibleName(), name)]
        return sorted(found, key=lambda w: self._centre(w).y())

    def see(self, name: str) -> QWidget:
        """The one that is called so; waits for it."""
        self.wait(lambda: self.all_named(name))
        found = self.all_named(name)
        assert len(found) == 1, f"{len(found)} are called {name!r}"
        return found[0]

    def reads(self, text: str) -> bool:
        """Whether a label says so anywhere."""
        return any(isinstance(w, QLabel) and text in w.text() for w in self._seen())

    def banners(self) -> list[str]:
        """What the banners above the talk say."""
        return self.window.talk.notices.texts

    def message(self, row: int) -> MessageView:
        """A message in sight; its row may be made in a turn to come."""
        column = self.window.talk.chat.column
        if column.widget(row) is None:
            self.look(100)
        view = column.widget(row)
        assert isinstance(view, MessageView), f"message {row} is not in sight"
        return view

    # Mouse

    def click(self, what: str | QWidget, at: QPoint | None = None) -> None:
        """Go there and press the left button."""
        widget = self.see(what) if isinstance(what, str) else what
        place = self.hover(widget, at)
        QTest.mouseClick(widget.window().windowHandle(), _LEFT, _NONE, place)
        self.clicks += 1
        self.look(20)

    def click_word(self, row: int, word: str) -> None:
        """A word of a message, in its middle."""
        body = self.message(row).body
        assert body is not None
        self.click(body, place_of(body, word))

    def hover(self, widget: QWidget, at: QPoint | None = None) -> QPoint:
        """Go there; where that is in its window. Fails where something else would get the click."""
        inside = at if at is not None else widget.visibleRegion().boundingRect().center()
        window = widget.window()
        place = widget.mapTo(window, inside)
        hit = window.childAt(place) or window
        assert hit is widget or widget.isAncestorOf(hit), f"{hit} covers {widget}"
        QTest.mouseMove(window.windowHandle(), place)
        self.look(20)
        still = at if at is not None else widget.visibleRegion().boundingRect().center()
        if widget.mapTo(window, still) != place:  # laid out anew meanwhile: it is followed
            return self.hover(widget, at)
        return place

    def click_in(self, view: MessageView, name: str) -> None:
        """A button of a message, which may show only under the mouse."""
        self.hover(view, QPoint(view.width() // 2, 8))
        buttons = [w for w in self.all_named(name) if view.isAncestorOf(w)]
        assert len(buttons) == 1, f"{len(buttons)} are called {name!r} in the message"
        self.click(buttons[0])

    # Keyboard

    def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = _NONE) -> None:
        """Press and let go."""
        surface = (QApplication.activePopupWidget() or self.window).windowHandle()
        QTest.keyClick(surface, key, modifiers)
        self.look(10)

    def type(self, text: str) -> None:
        """Letters, one after another, to whatever has the keyboard."""
        for letter in text:
            QTest.keyClick(self.window.windowHandle(), letter)
        self.look(20)

    def run(self, command: str) -> None:
        """A command by its shortcut."""
        shortcut = self.window.commands[command].shortcut()
        assert not shortcut.isEmpty(), f"{command} has no shortcut"
        pressed = shortcut[0]  # type: ignore[index]
        self.key(pressed.key(), pressed.keyboardModifiers())

    def tab_to(self, name: str, back: bool = False) -> QWidget:
        """Press Tab until the keyboard is at what is called so."""
        passed = []
        for _ in range(LONGEST_WALK):
            now = QApplication.focusWidget()
            if now is not None and _is_called(now.accessibleName(), name):
                return now
            passed.append(now.accessibleName() if now is not None else None)
            self.key(Qt.Key.Key_Backtab if back else Qt.Key.Key_Tab)
        raise AssertionError(f"Tab never came to {name!r}, but to {list(dict.fromkeys(passed))}")

    def _seen(self) -> Iterator[QWidget]:
        roots = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
        for root in roots:
            for widget in [root, *root.findChildren(QWidget)]:
                if widget.isVisible() and not widget.visibleRegion().isEmpty():
                    yield widget

    def _centre(self, widget: QWidget) -> QPoint:
        return QRect(widget.mapToGlobal(QPoint(0, 0)), widget.size()).center()


def place_of(view: MarkdownView, word: str) -> QPoint:
    """The middle of a word that a text shows."""
    laid = next(one for one in view.laid if word in one.document.toRawText())
    shown = laid.document.toRawText()
    at = units(shown, shown.index(word) + len(word) // 2)
    block = laid.document.findBlock(at)
    line = block.layout().lineForTextPosition(at - block.position())
    x = line.cursorToX(at - block.position())
    x = x[0] if isinstance(x, tuple) else x
    return QPoint(round(laid.origin.x() + x), round(laid.y_of(at) + line.height() / 2))


def _is_called(has: str, name: str) -> bool:
    return has.startswith(name[:-1]) if name.endswith("…") else has == name
