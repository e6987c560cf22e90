"""The talk stays fluid: what a turn of the window's loop costs while an answer comes.

Processor time of the window's thread is measured, not the clock: other programs may be busy.
The promise is for a machine of today; on a slower one the limits are as much longer.
"""

import re
import time
from collections.abc import Callable
from itertools import cycle

import pytest
from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtWidgets import QApplication

from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.bounds import holds_once, slowness

pytestmark = [pytest.mark.usefixtures("small_heap"), pytest.mark.alone]
RATE, SECONDS = 200, 1.5
IN_99_PERCENT, AT_WORST = 0.050, 0.150
TEXT = """## Title

Some **words** and `code`, in a paragraph that is long enough to be wrapped once or twice.

1. one
2. two with [a link](https://example.org)

```python
def f(x: int) -> str:  # comment
    return "text" + str(x)
```

| a | b |
|---|---|
| 1 | 2 |

"""


def pieces(n: int) -> list[str]:
    """Tokens of a text that has everything."""
    source = cycle(re.findall(r"\s*[\w*`|.,:#>-]{1,5}|\s+|\S", TEXT))
    return [next(source) for _ in range(n)]


@pytest.mark.full_cases("False")
@pytest.mark.parametrize("painted", [False, True])
def test_20000_tokens_and_an_answer_of_200_a_second(
    talk: Talk, engine: ScriptedEngine, ask: Callable[..., None], painted: bool
) -> None:
    for n in range(19):
        ask(f"Question {n}", *pieces(1000))
    if painted:
        talk.chat.toggle_probabilities()
    for _ in range(20):  # rows near the viewport are made one after the other
        QApplication.processEvents()
    holds_once(lambda: answer_fluidly(talk, engine))


def answer_fluidly(talk: Talk, engine: ScriptedEngine) -> None:
    turns: list[float] = []
    before = sum(m.n_tokens for m in talk.bench.chat.path)
    stream, sent, last = pieces(1000), 0, time.thread_time()
    assert talk.bench.chat.send("The last question")
    began = time.monotonic()
    loop = QEventLoop()

    def turn() -> None:
        nonlocal last
        now = time.thread_time()
        turns.append(now - last)
        last = now

    def write() -> None:
        nonlocal sent
        due = int((time.monotonic() - began) * RATE)
        if due > sent:
            engine.write(*stream[sent:due])
            sent = due
        if time.monotonic() - began > SECONDS:
            loop.quit()

    probe = QTimer(interval=10, timerType=Qt.TimerType.PreciseTimer)
    feed = QTimer(interval=16)
    probe.timeout.connect(turn)
    feed.timeout.connect(write)
    probe.start()
    feed.start()
    loop.exec()
    probe.stop()
    feed.stop()
    engine.end(n=sent)
    assert before >= 19_000
    assert sum(m.n_tokens for m in talk.bench.chat.path) >= before + sent
    assert sent > 0
    turns.sort()
    assert turns[int(len(turns) * 0.99)] <= IN_99_PERCENT * slowness()
    assert turns[-1] <= AT_WORST * slowness()
