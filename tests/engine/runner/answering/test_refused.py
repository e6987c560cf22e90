"""Transfers that a device refuses while several are answered: who was in the step is told, nothing
is left of it, and all others say what they say alone.
"""

from collections.abc import Iterator

import pytest

from engine.backends.opencl.buffers import OpenCLBuffer
from engine.errors import DeviceError
from engine.protocol import Generate
from engine.runner.answering.batcher import Broken
from engine.runner.answering.pace import Pace
from engine.runner.api import Model, load
from engine.runner.batch import MAX_BATCH
from tests.engine.runner.answering.many import GREEDY, Many, alone, asked, ids, tiny
from tests.engine.runner.memory import drivers
from tests.engine.runner.pictures.seeing import bring, noise, says
from tests.goldens.vision.families import write_single

pytestmark = pytest.mark.device
IDS = ids(11, 90)
N, LENGTH = 3, 4


@pytest.fixture(scope="module", params=["qwen35", "mamba2", "mllama"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("refused")
    cross = request.param == "mllama"
    path = write_single(folder, "mllama") if cross else tiny(folder, request.param)
    with load(path, device=drivers()[0], kv="f32", ctx=96, parallel=N, cells=0) as model:
        yield model


def requests(model: Model, first: int) -> list[Generate]:
    """Numbered from `first` on; with pictures where layers look at them."""
    numbers = range(first, first + N)
    if model.loaded.viewer is None:
        return [asked(n, IDS[20 * i : 20 * i + 9 + i], LENGTH) for i, n in enumerate(numbers)]
    more = {"sampling": GREEDY, "max_tokens": LENGTH, "endless": True}
    shown = [[bring(model, noise(i))] if i else [] for i in range(N)]
    return [Generate(n, messages=[says("a", *shown[i])], **more) for i, n in enumerate(numbers)]  # type: ignore[arg-type]


@pytest.mark.each_value
@pytest.mark.parametrize("most", [4, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize("part", ["start_write", "read"])
def test_each_transfer_refused(
    model: Model, part: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(alone(model, requests(model, 1)).values())
    real, counts = getattr(OpenCLBuffer, part), {"now": 0, "refuse": 0}

    def refusing(*args: object) -> object:
        counts["now"] += 1
        if counts["now"] == counts["refuse"]:
            raise DeviceError("pocl:0", "out of resources")
        return real(*args)

    monkeypatch.setattr(OpenCLBuffer, part, refusing)
    monkeypatch.setattr(Pace, "piece", lambda *_: MAX_BATCH)  # steps are as many, however fast

    def said(many: Many, first: int) -> list[list[int] | None]:
        """By each of those from a number on; None where it was ended by an error."""
        for request in requests(model, first):
            many.ask(request)
        many.finish()
        ends = [many.end(first + i) for i in range(N)]
        return [
            None if isinstance(end, Broken) else many.tokens(first + i)
            for i, end in enumerate(ends)
        ]

    assert said(Many(model), 1) == expected
    counts["now"] = 0
    assert said(Many(model), 1) == expected
    total = counts["now"]
    assert total > LENGTH
    for nth in range(1, total + 1, max(1, total // most)):
        many = Many(model)
        counts.update(now=0, refuse=nth)
        found = said(many, 1)
        counts["refuse"] = 0
        assert None in found, nth
        assert all(
            one is None or one == wanted for one, wanted in zip(found, expected, strict=True)
        )
        assert said(many, 11) == expected, nth
