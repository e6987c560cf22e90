"""What a test leaves of windows is gone before the next."""

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from tests.app.left import delete_new, top_widgets


@pytest.mark.parametrize("later", [False, True])
def test_widgets_of_a_test_go_and_those_before_it_stay(qapp: QApplication, later: bool) -> None:
    module = QWidget()
    before = top_widgets()
    assert module in before
    window, child = QWidget(), QWidget()
    child.setParent(window)
    if later:
        window.deleteLater()
    delete_new(before)
    assert (isValid(module), isValid(window), isValid(child)) == (True, False, False)
    assert top_widgets() == before
