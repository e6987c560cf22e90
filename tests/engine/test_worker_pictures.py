"""Pictures through the engine's process: brought once, planned, shown, asked for again."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.backends.opencl.drivers.device import list_devices
from engine.protocol import (
    ChatMessage,
    Generate,
    Load,
    PictureLimits,
    PicturePart,
    PlanPictures,
    Progress,
    PutPicture,
    Render,
    Sampling,
    ShowPicture,
    TextPart,
)
from engine.runner import load
from engine.settings import EngineOptions
from engine.worker import RemoteError, Worker
from tests.engine.runner.pictures.seeing import noise
from tests.goldens.vision.families import write_pair

PIXELS = noise(1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("worker"), "gemma3")[0]


def png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def open_model(worker: Worker, path: Path, device: str = "host", **options: object) -> None:
    chosen = EngineOptions(device=device, ctx=256, **options)  # type: ignore[arg-type]
    loaded = worker.get(Load(worker.new_id(), str(path), chosen))
    assert (loaded.vision is None) == (options.get("mmproj") == "none")


def asking(digest: str) -> list[ChatMessage]:
    return [ChatMessage("user", [TextPart("what is"), PicturePart(digest), TextPart("here")])]


def test_a_picture_outlives_the_model_and_is_planned_for_the_one_that_is_open(
    worker: Worker, path: Path
) -> None:
    before = worker.get(PutPicture(worker.new_id(), png(PIXELS)))
    assert (before.width, before.height, before.plan) == (60, 45, None)
    open_model(worker, path)
    (plan,) = worker.get(PlanPictures(worker.new_id(), [(60, 45)])).plans
    assert (plan.n_rows, plan.n_tokens, plan.n_patches, plan.seconds) == (16, 20, 256, None)
    assert worker.get(PutPicture(worker.new_id(), png(PIXELS))).plan == plan
    seen = worker.get(ShowPicture(worker.new_id(), before.digest))
    (view,) = seen.views
    shown = np.frombuffer(view.pixels, np.uint8).reshape(view.height, view.width, 3)
    resized = Image.fromarray(PIXELS).resize((112, 112), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(shown, np.asarray(resized))
    messages = asking(before.digest)
    request = Generate(
        worker.new_id(), messages=messages, sampling=Sampling(temperature=0), max_tokens=2
    )
    *events, end = worker.run(request)
    stages = [e.stage for e in events if isinstance(e, Progress)]
    assert list(dict.fromkeys(stages)) == ["encode", "prefill"]
    rendered = worker.get(Render(worker.new_id(), messages))
    (rows,) = rendered.rows
    assert (rows.picture, rows.view, rows.first, rows.count) == (1, 0, 0, 16)
    assert rendered.n_tokens == end.stats.n_prompt  # type: ignore[union-attr]
    assert "what is<start_of_image>here" in rendered.text
    (timed,) = worker.get(PlanPictures(worker.new_id(), [(60, 45)])).plans
    assert timed.seconds is not None
    assert timed.seconds > 0


@pytest.mark.device
@pytest.mark.skipif(not list_devices(), reason="needs an OpenCL device")
def test_kernels_are_told_of_as_built_for_the_answer_before_its_picture_is_looked_at(
    worker: Worker, path: Path
) -> None:
    open_model(worker, path, list_devices()[0].name)
    info = worker.get(PutPicture(worker.new_id(), png(PIXELS)))
    request = Generate(worker.new_id(), messages=asking(info.digest), max_tokens=1)
    told = [e for e in worker.run(request) if isinstance(e, Progress)]
    assert {e.id for e in told} == {request.id}
    stages = [e.stage for e in told if e.stage != "prefill"]
    assert list(dict.fromkeys(stages)) == ["compile", "encode"]
    looked = stages.index("encode")
    assert (told[looked].done, told[looked].total) == (0, 2)


def test_what_the_engine_does_not_hold_is_named_to_be_brought(worker: Worker, path: Path) -> None:
    open_model(worker, path)
    with pytest.raises(RemoteError, match="add them again") as refused:
        worker.get(Generate(worker.new_id(), messages=asking("ab" * 32)))
    assert refused.value.pictures == ("ab" * 32,)
    with pytest.raises(RemoteError, match="picture: ") as broken:
        worker.get(PutPicture(worker.new_id(), b"no picture"))
    assert broken.value.kind == "BadPicture"
    info = worker.get(PutPicture(worker.new_id(), png(PIXELS)))
    worker.get(Generate(worker.new_id(), messages=asking(info.digest), max_tokens=1))


def test_a_model_that_reads_text_alone_says_so(worker: Worker, path: Path) -> None:
    open_model(worker, path, mmproj="none")
    info = worker.get(PutPicture(worker.new_id(), png(PIXELS)))
    assert info.plan is None
    for request in (
        Generate(worker.new_id(), messages=asking(info.digest)),
        PlanPictures(worker.new_id(), [(1, 1)]),
        ShowPicture(worker.new_id(), info.digest),
    ):
        with pytest.raises(RemoteError, match="reads text only"):
            worker.get(request)


def test_the_library_takes_paths_bytes_images_and_arrays(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(png(PIXELS))
    greedy = Sampling(temperature=0)
    with load(path, device="host", ctx=256) as model:
        ways = (file, str(file), png(PIXELS), Image.fromarray(PIXELS), PIXELS)
        said = {
            "".join(model.generate("what is it", images=[way], sampling=greedy, max_tokens=4))
            for way in ways
        }
        assert len(said) == 1
        assert model.loaded.viewer is not None
        assert model.loaded.viewer.store.size == 16 * 64 * 4  # one picture


def test_a_picture_is_planned_within_its_limits(worker: Worker, tmp_path: Path) -> None:
    """When it is brought, when it is asked for, and in the answer."""
    open_model(worker, write_pair(tmp_path, "idefics3")[0])
    file, one = png(noise(1, 90, 30)), PictureLimits(one_view=True)
    free = worker.get(PutPicture(worker.new_id(), file))
    tight = worker.get(PutPicture(worker.new_id(), file, one))
    assert free.digest == tight.digest
    assert free.plan is not None
    assert tight.plan is not None
    assert len(tight.plan.views) == 1 < len(free.plan.views)
    size = (free.width, free.height)
    limits = [PictureLimits(), one]
    plans = worker.get(PlanPictures(worker.new_id(), [size, size], limits)).plans
    assert plans == [free.plan, tight.plan]
    messages = [ChatMessage("user", [PicturePart(free.digest, one), TextPart("?")])]
    answer = worker.get(Generate(worker.new_id(), messages=messages, max_tokens=1))
    assert answer.stats.n_image_rows == tight.plan.n_rows
    with pytest.raises(RemoteError, match="one for each of 1 sizes"):
        worker.get(PlanPictures(worker.new_id(), [size], limits))
