"""State before a scripted engine."""

import pytest

from app.state.workbench import Workbench
from tests.app.helpers.gui import bench, engine, one_theme, quiet, theme
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.token.asking import WORDS

__all__ = ["bench", "engine", "one_theme", "quiet", "theme"]


@pytest.fixture
def talk(bench: Workbench, engine: ScriptedEngine) -> Workbench:
    """A question is answered, and the view is shown."""
    bench.preferences.update(token_live=False)
    assert bench.chat.send("What is the capital of France?")
    engine.write(*WORDS)
    engine.end(n=len(WORDS))
    bench.token.shown(True)
    return bench
