"""Which weights are kept, by what they hold, and when they are written: as they lie, at leisure."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.device.backend import Component, Owner
from engine.gguf import open_gguf
from engine.graph.tensor import Role, leaf
from engine.kept import prepared_files
from engine.protocol import Load, Move
from engine.runner.loading import load_model
from engine.runner.placing.move import move
from engine.weights.load import Allocation, InFile
from engine.weights.prepared import use
from engine.weights.prepared.file import PreparedFile
from engine.weights.prepared.store import WHOLE
from engine.worker.handlers import HANDLERS
from engine.worker.keeping import Keeping
from engine.worker.service import Service
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.engine.runner.placing.preparing import (
    KINDS,
    device,
    keep,
    logits,
    opened,
    options,
    own_files,
    path,
)
from tests.goldens.tiny import write_tiny
from tests.kernels.conftest import backend, pytest_generate_tests

__all__ = ["backend", "device", "own_files", "path", "pytest_generate_tests"]
pytestmark = [
    pytest.mark.device,
    pytest.mark.only_linux("weights are prepared there alone"),
]


def test_another_file_or_packing_is_packed_anew(
    path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = options(device)
    with closing(load_model(path, wanted)) as model:
        keep(model)
    with monkeypatch.context() as patch:
        patch.setattr("engine.backends.opencl.backend.packing", lambda: "auto-other")
        assert opened(path, wanted)[0] == 0
    other = {"blk.0.attn_norm.weight": np.full(64, 2.0, np.float32)}
    write_tiny(path.with_suffix(".new"), "llama", KINDS, tensors=other).replace(path)
    taken, _, shown, _ = opened(path, wanted)
    assert taken == 0
    np.testing.assert_array_equal(shown, opened(path, replace(wanted, prepared=0))[2])


def test_a_model_that_was_changed_meanwhile_is_not_kept(path: Path, device: str) -> None:
    with closing(load_model(path, options(device))) as model:
        path.touch()
        assert "was changed since it was opened" in keep(model)
    assert not prepared_files()


def test_another_placement_takes_what_is_there(path: Path) -> None:
    """And what it packed is kept with the rest."""
    one, two = two_devices()
    whole = options(f"{one},{two}")
    with closing(load_model(path, replace(whole, place=f"0-1={one},2=host,out=host"))) as model:
        keep(model)
    then = replace(whole, place=f"0={one},1={two},2={one},out={two}")
    with closing(load_model(path, then)) as model:
        layers = {t.name[:5] for t in model.room.was_prepared}
        assert layers == {"blk.0", "blk.1"}
        shown = logits(model)
        keep(model)
    taken, size, again, _ = opened(path, then)
    assert taken == size
    np.testing.assert_array_equal(again, shown)


def test_layers_move_from_there_and_back(path: Path) -> None:
    one, two = two_devices()
    wanted = replace(options(f"{one},{two}"), place=f"0-2={one},out={one}")
    with closing(load_model(path, wanted)) as model:
        shown = logits(model)
        keep(model)
    with closing(load_model(path, wanted)) as model:
        assert model.room.prepared.size
        for place in (f"0={one},1-2={two},out={one}", "0-2=host,out=host", wanted.place):
            move(model, replace(wanted, place=place))
            assert held(model.dry) == foreseen(model.dry)
        np.testing.assert_array_equal(logits(model), shown)
        assert keep(model) == ""


def test_moved_layers_are_written_as_they_lie_then(path: Path) -> None:
    """The writing before has ended by then: it would keep memory that is given back."""
    one, two = two_devices()
    wanted = replace(options(f"{one},{two}"), place=f"0-1={one},2=host,out=host")
    service = Service(lambda reply: None, set())
    HANDLERS[Load](service, Load(1, str(path), wanted))
    first = service.keeping
    HANDLERS[Move](service, Move(2, replace(wanted, place=f"0={one},1-2={two},out={one}")))
    assert first.has_ended(0)
    assert not prepared_files()
    assert service.keeping.has_ended(60)
    written = PreparedFile(prepared_files()[0].path).entries
    model, _ = service.model
    moved = {one: model.room.placed[one.tensors[0][0]].buffer for one in model.dry.weights}
    assert written.keys() == use.keepable(moved, model.opened.stored).keys()
    service.close_model()
    assert service.keeping is None


def test_writing_waits_for_leisure_and_ends_with_the_model(path: Path, device: str) -> None:
    """A busy engine is never idle: not a byte is written, and nobody waits for the end."""
    with closing(load_model(path, options(device))) as model:
        idle = Event()
        keeping = Keeping(model, idle)
        keeping.stop()
        assert not prepared_files()
        keeping = Keeping(model, idle)
        idle.set()
        deadline = monotonic() + 60
        while not any(one.path.suffix == WHOLE for one in prepared_files()):
            assert monotonic() < deadline
            sleep(0.001)
        keeping.stop()


def test_keys_tell_what_a_buffer_holds(
    backend: OpenCLBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other packing, format, shape, name or file, and whichever device or layer."""
    another = write_tiny(path.with_name("other.gguf"), "llama", KINDS)
    with (
        closing(load_model(path, options(backend.name))) as model,
        open_gguf(another) as other_file,
    ):
        file = model.file
        one = model.dry.weights[0]

        def key(wanted: Allocation, stored: InFile) -> str:
            return use.key_of(wanted, lambda tensor: stored)

        stored = InFile(file, "a")
        (tensor, size), *_ = one.tensors
        of_one = replace(one, tensors=((tensor, size),))
        same = replace(of_one, owner=Owner(Component.WEIGHTS, 77), type=replace(one.type))
        assert key(of_one, stored) == key(same, stored)
        was = key(of_one, stored)
        other = leaf("x", tensor.fmt, (tensor.shape[0], 2, 1, 1), Role.WEIGHT)
        others = [
            key(replace(of_one, tensors=((tensor, size + 64),)), stored),
            key(replace(of_one, tensors=((other, size),)), stored),
            key(replace(of_one, type=replace(one.type, layout="other")), stored),
            key(of_one, InFile(file, "b")),
            key(of_one, InFile(other_file, "a")),
        ]
        monkeypatch.setattr(one.backend, "packing", "auto-other")
        assert len({*others, was, key(of_one, stored)}) == 7
