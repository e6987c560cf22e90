"""Where the keyboard goes."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget


class OwnOrder:
    """A widget whose children Tab goes through in another order than that of their making."""

    def stops(self) -> list[QWidget]:
        """Where Tab stops now, in order."""
        raise NotImplementedError


class Refuge:
    """A window which says where the keyboard goes when what had it is hidden or disabled."""

    def refuge(self, gone: QWidget | None) -> QWidget:
        """Where it goes from there; None where nothing had the keyboard."""
        raise NotImplementedError


def focusable(root: QWidget) -> Iterator[QWidget]:
    """The widgets below `root` that Tab reaches now, in its order."""
    if isinstance(root, OwnOrder):
        yield from root.stops()
        return
    widget = root.nextInFocusChain()
    while widget is not None and widget is not root:
        # What few widgets are, and what is quickest to check, comes first: there are a thousand.
        stops = widget.isVisibleTo(root) and (isinstance(widget, OwnOrder) or _stops(widget))
        if stops and root.isAncestorOf(widget) and not _is_ordered_by_other(widget, root):
            yield from widget.stops() if isinstance(widget, OwnOrder) else (widget,)
        widget = widget.nextInFocusChain()


def _stops(widget: QWidget) -> bool:
    """Return whether Tab stops at a widget."""
    return (
        widget.isEnabled()
        and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
        and widget.focusProxy() is None
    )


def _is_ordered_by_other(widget: QWidget, root: QWidget) -> bool:
    above = widget.parentWidget()
    while above is not None and above is not root:
        if isinstance(above, OwnOrder):
            return True
        above = above.parentWidget()
    return False


def move_focus(root: QWidget, forward: bool) -> bool:
    """Tab within `root`, round and round; False where nothing takes the keyboard.

    Qt does the same when what has the keyboard is hidden or disabled.
    """
    now = QApplication.focusWidget()
    if isinstance(root, Refuge) and take_refuge(root, now):
        return True
    inside = list(focusable(root))
    if not inside:
        return False
    at = inside.index(now) if now in inside else -1 if forward else 0
    reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
    inside[(at + (1 if forward else -1)) % len(inside)].setFocus(reason)
    return True


def take_refuge(root: Refuge, now: QWidget | None) -> bool:
    """Move the keyboard where it cannot stay at `now`; whether it was moved."""
    if now is not None and now.isVisible() and now.isEnabled():
        return False
    refuge = root.refuge(now)
    return refuge.isVisible() and focus_first(refuge)


def focus_first(root: QWidget, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> bool:
    """Give the keyboard to the first of them; False where there is none."""
    first = root.focusProxy() or next(focusable(root), None)
    if first is not None:
        first.setFocus(reason)
    return first is not None


def has_focus(root: QWidget) -> bool:
    """Return whether `root` or a descendant has the keyboard focus."""
    now = QApplication.focusWidget()
    return now is not None and (now is root or root.isAncestorOf(now))
