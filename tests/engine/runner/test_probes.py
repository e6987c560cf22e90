"""Results copied out of a running model: on each device what the host computes, nothing lost."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from engine.errors import BadSetting, CannotProbe, NoMem
from engine.models import build
from engine.models.build import BuiltModel
from engine.runner.loading import LoadedModel, load_model
from engine.scheduler import probed
from engine.scheduler.plan import Planner
from engine.scheduler.probes import Probed, Probes
from engine.settings import EngineOptions
from engine.units import MIB
from tests.engine.runner.memory import two_devices
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny
from tests.kernels.conftest import pytest_generate_tests
from tests.kernels.harness import nmse

__all__ = ["pytest_generate_tests"]

ALL = Probes((".*",))
FORMATS = {"attn_v": Type.Q8_0, "attn_": Type.Q5_0, "ffn_": Type.Q4_1}
# Twelve bits of activations at each of few layers; and f16 keys whose last bit may differ.
EXACT, QUANTISED = 1e-7, 2e-5
Found = list[tuple[np.ndarray, list[Probed]]]


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """A device of every driver in turn."""
    return str(request.param)


def steps(path: Path, options: EngineOptions, probes: Probes, tokens: list[int]) -> Found:
    """Logits and results of a prompt of 21, padded to 24, with the logits of 5, and of a token."""
    with closing(load_model(path, options)) as model:
        found = []
        for start, end, outputs in ((0, 21, [1, 4, 9, 16, 20]), (21, 22, [0])):
            step = model.stepper.start(tokens[start:end], start, outputs, probes=probes)
            found.append((step(), step.probed()))
        return found


def alike(got: Found, want: Found, limit: float) -> None:
    for (logits, results), (other, expected) in zip(got, want, strict=True):
        assert nmse(logits, other) < limit
        assert [one.key for one in results] == [one.key for one in expected]
        for one, wanted in zip(results, expected, strict=True):
            assert one.values.shape == wanted.values.shape
            assert nmse(one.values, wanted.values) < limit, one.key


@pytest.mark.each_value
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
def test_every_result_is_the_hosts(
    architecture: str, backend: str, fused: bool, tmp_path: Path
) -> None:
    """Nothing is fused away, nothing written over, nothing of the padding seen."""
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    tokens = tiny_tokens(architecture).tolist()
    options = [EngineOptions(device=d, ctx=64, flash_attention=fused) for d in (backend, "host")]
    got, want = (steps(path, one, ALL, tokens) for one in options)
    alike(got, want, EXACT)
    prompt, token = ({one.key: one.values.shape for one in results} for _, results in got)
    assert prompt["l_out-0", 0] == (21, 64)
    assert prompt["result_norm", 0] == (5, 64)
    assert token["l_out-0", 0] == token["result_norm", 0] == (1, 64)
    if not fused:
        heads = prompt["kq", 0][0]
        assert prompt["kq", 0] == prompt["kq_soft_max", 0] == (heads, 21, 21)
        assert token["kq", 0] == (heads, 1, 22)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_fused_away_or_not(architecture: str, backend: str, tmp_path: Path) -> None:
    """Of quantised weights, where most is fused: one result at a time, and all at once."""
    path = write_tiny(tmp_path / "tiny.gguf", architecture, FORMATS)
    tokens = tiny_tokens(architecture).tolist()
    options = EngineOptions(device=backend, ctx=64)
    want = steps(path, EngineOptions(device="host", ctx=64), ALL, tokens)
    alike(steps(path, options, ALL, tokens), want, QUANTISED)
    with closing(load_model(path, options)) as model:
        for name in ("attn_norm-1", "Kcur-1", "attn_out-0", "ffn_gate-1", "ffn_out-2", "l_out-0"):
            probes = Probes((name,))
            step = model.stepper.start(tokens[:21], 0, [1, 4, 9, 16, 20], probes=probes)
            only = [one for one in want[0][1] if one.key.name == name]
            alike([(step(), step.probed())], [(want[0][0], only)], QUANTISED)
            model.stepper.forget(0)


@pytest.mark.device
def test_each_device_has_its_own_ring(tiny_path: Path) -> None:
    one, two = two_devices()
    tokens = tiny_tokens("llama").tolist()
    split = EngineOptions(device=one, ctx=64, place=f"1={two},out=host")
    want = steps(tiny_path, EngineOptions(device="host", ctx=64), ALL, tokens)
    alike(steps(tiny_path, split, ALL, tokens), want, EXACT)
    with closing(load_model(tiny_path, split)) as model:
        model.stepper.start([5], 0, [0], probes=Probes((r"l_out-\d", "result_output")))()
        held = {name for name, owner in _taken(model) if owner == "probes"}
        assert held == {one, two, "host"}


def _taken(model: LoadedModel) -> dict[tuple[str, str], int]:
    pools = {id(b.pool): b.pool for b in model.backends}.values()
    return {(name, owner.name): n for pool in pools for (name, owner), n in pool.taken.items()}


@pytest.fixture
def model(tiny_path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(tiny_path, EngineOptions(device="host", ctx=64))) as opened:
        yield opened


def test_memory_is_known_and_given_back(model: LoadedModel) -> None:
    before, plan = _taken(model), model.stepper.one_token()
    step = model.stepper.start([5, 6, 7], 0, [2], probes=Probes(("l_out-.*",)))
    step()
    values = [one.values for one in step.probed()]
    ring = _taken(model).pop(("host", "probes"))
    assert ring == (3 + 3 + 1) * 64 * 4 == sum(v.nbytes for v in values)
    model.stepper.step([5], 3, [0])
    assert model.stepper.one_token() is plan  # nothing of it was made again
    model.stepper.end_probes()
    assert _taken(model) == before
    assert all(np.isfinite(v).all() for v in values)  # these are the caller's own
    model.stepper.end_probes()


def test_a_plan_that_is_there_is_not_made_again(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probes add to it; which dimensions count tokens is asked once, however many cells there are,
    and asked again of another graph.
    """
    probes, tokens = Probes((r"l_out-\d", "Qcur-1", "kqv_out-.*")), [5] * 80
    built: list[object] = []
    real = BuiltModel.build

    def counted(self: BuiltModel, *given: object, **named: object) -> object:
        built.append(given)
        return real(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "CELL_STEP", 64)
    with closing(load_model(tiny_path, EngineOptions(device="host", ctx=128))) as model:
        stepper = model.stepper
        stepper.step(tokens[:20], 0, [19])
        stepper.step([1], 20, [0])
        monkeypatch.setattr(BuiltModel, "build", counted)
        outlines: list[object] = []
        outline = Planner.outline
        monkeypatch.setattr(
            Planner, "outline", lambda *given: outlines.append(0) or outline(*given)
        )
        shapes = []
        for start, n, n_built in ((21, 1, 1), (22, 1, 0), (23, 70, 3), (93, 1, 1)):
            built.clear()
            outlines.clear()
            step = stepper.start(tokens[:n], start, [n - 1], probes=probes)
            step()
            assert len(built) == n_built, start
            assert len(outlines) == (start > 22), start
            shapes.append([one.values.shape for one in step.probed()])
        assert shapes[0] == shapes[1] == shapes[3] != shapes[2]
        assert {shape[0] for shape in shapes[0]} == {1}
        assert {shape[0] for shape in shapes[2]} == {70, 1}


def test_more_results_make_a_larger_ring(model: LoadedModel) -> None:
    few, many = Probes(("l_out-0",)), Probes((r"l_out-\d", "Qcur-.*"))
    found = []
    for probes in (few, many, few):
        step = model.stepper.start([5, 6, 7], 0, [2], probes=probes)
        step()
        found.append({one.key: one.values for one in step.probed()})
        model.stepper.forget(0)
    assert [len(results) for results in found] == [1, 9, 1]
    for results in found:
        np.testing.assert_array_equal(results["l_out-0", 0], found[0]["l_out-0", 0])


def test_too_large_is_said_in_numbers(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed, "RING_BYTES", MIB // 64)
    model.stepper.step([5, 6, 7], 0, [2])
    with pytest.raises(CannotProbe, match=r"^48 results take 0\.\d MiB on host, of at most .*name"):
        model.stepper.start([8, 9], 3, [1], probes=ALL)
    _goes_on(model)


def test_refused_memory_loses_nothing(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model.stepper.step([5, 6, 7], 0, [2])
    host = model.backends[-1]
    monkeypatch.setattr(host, "budget", host.used + 1000)
    with pytest.raises(NoMem, match="probes"):
        model.stepper.start([8, 9], 3, [1], probes=ALL)
    assert ("host", "probes") not in _taken(model)
    _goes_on(model)
    monkeypatch.setattr(host, "budget", None)
    step = model.stepper.start([8, 9], 3, [1], probes=ALL)
    step()
    assert len(step.probed()) == 48


def _goes_on(model: LoadedModel) -> None:
    """The next tokens are what they would have been."""
    got = model.stepper.step([8, 9], 3, [1])
    model.stepper.forget(0)
    model.stepper.step([5, 6, 7], 0, [2])
    np.testing.assert_array_equal(got, model.stepper.step([8, 9], 3, [1]))
    model.stepper.forget(3)


def test_names_are_patterns(model: LoadedModel) -> None:
    def names(*patterns: str) -> list[tuple[str, int]]:
        step = model.stepper.start([5], 0, [0], probes=Probes(patterns))
        step()
        model.stepper.forget(0)
        return [tuple(one.key) for one in step.probed()]

    assert names("Qcur-1", "l_out-[02]") == [
        ("l_out-0", 0),
        ("Qcur-1", 0),
        ("Qcur-1", 1),
        ("l_out-2", 0),
    ]
    assert names("l_out") == []
    assert not [name for name, _ in names(".*") if "node_" in name or "(" in name]
    with pytest.raises(BadSetting, match="probe: 'l_out-\\(' .* regular expression"):
        names("l_out-(")
