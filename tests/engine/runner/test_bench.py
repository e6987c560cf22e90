"""Timed tests and profiles on tiny models, on the host and on the device there is."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import BadSetting, Cancelled
from engine.images.decode import Picture
from engine.protocol import BenchTest, PicturePart, StepProfile
from engine.runner import bench as bench_module
from engine.runner.api import Model, load
from engine.runner.bench import bench, bench_picture, fill, random_ids
from engine.runner.pictures.compose import shown
from engine.runner.profile import profile
from engine.runner.sequence import Sequenced
from tests.goldens.vision.families import write_pair

DEVICES = ["host", pytest.param(None, marks=pytest.mark.device)]


def never() -> bool:
    return False


@pytest.fixture(params=DEVICES, ids=["host", "device"])
def model(request: pytest.FixtureRequest, tiny_path: Path):
    with load(tiny_path, device=request.param) as model:
        yield model


@pytest.fixture
def windowed(tiny_base_path: Path):
    with load(tiny_base_path, device="host") as model:
        yield model


def sequence_of(model: Model) -> Sequenced:
    return Sequenced(model.loaded.stepper)


def test_what_is_run_is_the_test(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(step=1000)
    monkeypatch.setattr(bench_module, "perf_counter_ns", lambda: next(ticks))
    sequence, sizes = sequence_of(model), []
    start = sequence.stepper.start_together

    def counting(parts, *rest, **more):
        [part] = parts
        sizes.append((part.first_position, len(part.tokens)))
        assert list(part.outputs) == [len(part.tokens) - 1]
        return start(parts, *rest, **more)

    monkeypatch.setattr(sequence.stepper, "start_together", counting)
    test = BenchTest(n_prompt=3, n_gen=2, n_depth=5)
    samples = list(bench(model.loaded, sequence, test, 2, True, never))
    assert samples == [1000, 1000]
    # The depth is read once and kept; each repetition is a prompt and then single tokens.
    assert sizes == [(0, 5)] + 3 * [(5, 3), (8, 1), (9, 1)]


def test_the_depth_is_the_same_however_it_came_about(windowed: Model) -> None:
    """A cache cut back to the depth answers as a fresh one; with a window of 8 it cannot be."""
    sequence, depth = sequence_of(windowed), 24
    fill(windowed.loaded, sequence, depth, never)
    first = sequence.append(7)
    for token in random_ids(windowed.loaded, 20, seed=3):
        sequence.append(token)
    fill(windowed.loaded, sequence, depth, never)
    assert sequence.items == random_ids(windowed.loaded, depth, seed=depth)
    assert np.allclose(sequence.append(7), first, atol=1e-5)
    fill(windowed.loaded, sequence, 0, never)
    assert sequence.items == []


def test_a_picture_is_computed_anew_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All views of it, once to warm up; a picture that has to be brought is not timed."""
    path, mmproj = write_pair(tmp_path, "idefics3", Kind.F16)
    pixels = np.random.default_rng(1).integers(0, 256, (60, 90, 3), np.uint8)
    with load(path, mmproj=str(mmproj), device="host") as model:
        viewer = model.loaded.viewer
        assert viewer is not None
        brought = Picture(pixels)
        viewer.album.put_pixels(brought)
        picture = shown(model.loaded.tokenizer, viewer, PicturePart(brought.digest))
        views, inputs = [], type(viewer.tower).inputs

        def counted(tower, pixels, plan, view):
            views.append(view)
            return inputs(tower, pixels, plan, view)

        monkeypatch.setattr(type(viewer.tower), "inputs", counted)
        samples = list(bench_picture(viewer, picture, 2, True, never))
        assert len(picture.plan.views) > 1
        assert views == [*range(len(picture.plan.views))] * 3
        assert len(samples) == 2
        assert min(samples) > 0
        with pytest.raises(Cancelled):
            list(bench_picture(viewer, picture, 1, False, lambda: True))


def test_ids_begin_as_the_file_wants(model: Model, windowed: Model) -> None:
    assert random_ids(windowed.loaded, 9, seed=1)[0] == windowed.loaded.tokenizer.bos
    assert random_ids(windowed.loaded, 0, seed=1) == []
    ids = random_ids(model.loaded, 200, seed=1)
    assert len(set(ids)) > 100
    assert ids != random_ids(model.loaded, 200, seed=2)


@pytest.mark.parametrize("test", [BenchTest(), BenchTest(n_prompt=-1), BenchTest(n_gen=1 << 20)])
def test_a_test_that_cannot_be(model: Model, test: BenchTest) -> None:
    with pytest.raises(BadSetting):
        list(bench(model.loaded, sequence_of(model), test, 1, False, never))


def test_cancelled(model: Model) -> None:
    for test in (BenchTest(n_prompt=4), BenchTest(n_gen=4), BenchTest(n_gen=4, n_depth=4)):
        with pytest.raises(Cancelled):
            list(bench(model.loaded, sequence_of(model), test, 1, False, lambda: True))
    with pytest.raises(Cancelled):
        list(profile(model.loaded, sequence_of(model), 1, [0], 1, lambda: True))


@pytest.mark.parametrize("n_tokens", [1, 12])
def test_a_profile_adds_up(model: Model, n_tokens: int) -> None:
    sequence = sequence_of(model)
    found = list(profile(model.loaded, sequence, n_tokens, [0, 40], 3, never))
    assert [(p.n_tokens, p.n_depth, p.n_steps) for p in found] == [
        (n_tokens, 0, 3),
        (n_tokens, 40, 3),
    ]
    for one in found:
        adds_up(one, model.loaded.device.name)


def adds_up(one: StepProfile, device: str) -> None:
    assert one.plain_ns > 0
    parts = (one.before_ns, one.kernels_ns, one.gaps_ns, one.after_ns)
    assert min(one.before_ns, one.kernels_ns, one.after_ns) > 0
    assert sum(parts) == one.step_ns
    on_device = [launch for launch in one.launches if launch.device == device]
    assert all(launch.end >= launch.start for launch in on_device)
    # Found again from the launches themselves: kernels and the gaps between neighbours.
    assert sum(launch.end - launch.start for launch in on_device) == one.kernels_ns
    gaps = [b.start - a.end for a, b in itertools.pairwise(on_device)]
    assert sum(gaps) == one.gaps_ns
    assert min(gaps, default=0) > -20_000  # a queue in order; clocks may jitter
    span = on_device[-1].end - on_device[0].start
    assert one.kernels_ns + one.gaps_ns == span
    # The host's spans are the whole step, one after the other.
    edges = [0, *(span.end for span in one.host)]
    assert [span.start for span in one.host] == edges[:-1]
    assert edges[-1] == one.step_ns
    # Every grouping counts every launch once.
    for by in ("kernel", "op", "role", "split"):
        costs = [cost for cost in one.costs if cost.by == by]
        assert sum(cost.count for cost in costs) == len(one.launches)
        assert sum(cost.flops for cost in costs) == sum(x.flops for x in one.launches)
        assert sum(cost.bytes for cost in costs) == sum(x.bytes for x in one.launches)
        assert [cost.ns for cost in costs] == sorted((cost.ns for cost in costs), reverse=True)


def test_a_profile_counts_the_model(model: Model) -> None:
    """Products of a token: two operations a weight, whatever was fused."""
    (one,) = profile(model.loaded, sequence_of(model), 1, [0], 1, never)
    weights = [w for w in model.loaded.built.sources if w.shape[1] > 1]
    multiplied = sum(w.nelements for w in weights if w.name != "token_embd.weight")
    costs = [cost for cost in one.costs if cost.by == "op" and cost.name.startswith("matmul")]
    assert sum(cost.flops for cost in costs) == 2 * multiplied


@pytest.mark.parametrize(("n_tokens", "depth", "steps"), [(0, 0, 1), (513, 0, 1), (1, 0, 0)])
def test_a_profile_that_cannot_be(model: Model, n_tokens: int, depth: int, steps: int) -> None:
    with pytest.raises(BadSetting):
        list(profile(model.loaded, sequence_of(model), n_tokens, [depth], steps, never))
    with pytest.raises(BadSetting):
        list(profile(model.loaded, sequence_of(model), 1, [1 << 20], 1, never))
