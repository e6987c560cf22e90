"""Buttons and the keyboard: Enter clicks, a shortcut with Enter does not."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from app.widgets.basics import Button, IconButton

Key, Held = Qt.Key, Qt.KeyboardModifier


@pytest.mark.parametrize("kind", ["words", "picture"])
def test_enter_clicks_alone(qtbot: QtBot, kind: str) -> None:
    clicked: list[bool] = []

    def click() -> None:
        clicked.append(True)

    button: QAbstractButton = (
        Button("A", click) if kind == "words" else IconButton("copy", "A", click)
    )
    qtbot.addWidget(button)
    button.show()
    for key, held in ((Key.Key_Return, Held.NoModifier), (Key.Key_Enter, Held.KeypadModifier)):
        QTest.keyClick(button, key, held)
        assert clicked.pop()
    for held in (Held.ControlModifier, Held.ShiftModifier, Held.AltModifier):
        QTest.keyClick(button, Key.Key_Return, held)
        assert not clicked
