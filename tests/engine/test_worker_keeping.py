"""A worker that has nothing to do keeps the weights of its model for the next one."""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from engine import kept
from engine.backends.opencl.drivers.device import list_devices
from engine.errors import CutawayError
from engine.protocol import Cancel, Embed, Generate, Load, Loaded, Piece, Prepare, Progress, Unload
from engine.settings import EngineOptions, cache_folder
from engine.weights.prepared.file import START
from engine.worker import RemoteError, Worker
from tests.engine.test_worker import REPEATING, answer, load
from tests.goldens.tiny import write_wide
from tests.program import run

pytestmark = pytest.mark.device
ENOUGH = 100  # tokens, in which time all could be written twice
BUILT = ("programs", "pocl", "drivers", "tuning")


@pytest.fixture
def device() -> str:
    found = [d.name for d in list_devices() if d.default and d.traits.is_cpu]
    if not found:
        pytest.skip("needs an OpenCL driver")
    return found[0]


@pytest.fixture(scope="module")
def wide_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with enough weights to be prepared."""
    return write_wide(tmp_path_factory.mktemp("wide") / "wide.gguf")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's, with the kernels that are built already."""
    for name in BUILT:
        (cache_folder() / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(cache_folder() / name)
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path))


@pytest.mark.only_linux("weights are prepared there alone")
def test_the_next_worker_maps_what_an_idle_one_has_written(wide_path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64, prepared=1)
    with Worker() as worker:
        worker.send(Load(worker.new_id(), str(wide_path), options))
        endless = Generate(worker.new_id(), prompt="the", sampling=REPEATING, max_tokens=10**6)
        worker.send(endless)  # so there is hardly an idle moment in between
        pieces, written = 0, []
        while pieces < ENOUGH:
            reply = worker.receive(60)
            pieces += isinstance(reply, Piece)
            assert not isinstance(reply, Loaded) or reply.prepared == 0
            if isinstance(reply, Piece) and pieces >= ENOUGH // 2:
                written.append([(one.path.suffix, one.size) for one in kept.prepared_files()])
        assert all(one == written[0] for one in written)
        assert all(suffix == ".part" for suffix, _ in written[0])
        worker.send(Cancel(endless.id))
        said, _ = answer(worker)
        deadline = monotonic() + 60
        while not any(one.path.suffix == ".weights" for one in kept.prepared_files()):
            assert monotonic() < deadline
            sleep(0.01)  # nobody asks anything
    (file,) = kept.prepared_files()
    with Worker() as worker:
        loaded = load(worker, wide_path, options)
        assert loaded.prepared > wide_path.stat().st_size * 0.6
        assert any(str(file.path) in line for line in loaded.details)
        assert worker.get(Prepare(worker.new_id())).problem == ""
        assert answer(worker)[0] == said
        assert kept.prepared_files()[0].path.stat().st_ino == os.stat(file.path).st_ino
        kept.delete_prepared()
        assert answer(worker)[0] == said  # mapped as long as it is open


@pytest.mark.only_linux("weights are prepared there alone")
def test_one_answer_in_a_terminal_leaves_a_whole_file_and_checks_a_damaged_one(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_PREPARED", "1")
    words = ("shapes", "--device", device, "--ctx", "64", "--max-tokens", "1")
    ended = run("run", *words, "-p", "hi")
    assert ended.returncode == 0, ended.stderr
    (file,) = kept.prepared_files()
    assert file.path.suffix == ".weights"
    with file.path.open("r+b") as handle:
        handle.seek(START + (64 << 10))  # where opening it does not look
        handle.write(os.urandom(4096))
    damaged = run("run", *words, "-p", "hi")
    assert (damaged.returncode, str(file.path) in damaged.stderr) == (1, True)
    assert "are damaged; this answer may be wrong: run the command again" in damaged.stderr
    again = run("run", *words, "-p", "hi")
    assert (again.returncode, again.stdout) == (0, ended.stdout)


def test_a_file_that_is_written_under_an_open_model_is_named_once(
    tiny_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(tiny_path.read_bytes())
    with Worker() as worker:
        load(worker, path, EngineOptions(device="host", ctx=64))
        assert notes_of(worker) == []
        with path.open("r+b") as handle:
            handle.seek(-64, os.SEEK_END)
            handle.write(bytes(64))
        (note,) = notes_of(worker)
        assert (
            note == f"{path} was changed since it was opened: answers may be wrong; open it again"
        )
        assert notes_of(worker) == []
        path.unlink()  # what is mapped stays
        assert notes_of(worker) == []


def notes_of(worker: Worker) -> list[str]:
    """What an answer says of the model."""
    request = Generate(worker.new_id(), prompt="the", sampling=REPEATING, max_tokens=2)
    told = worker.run(request)
    return [reply.note for reply in told if isinstance(reply, Progress) and reply.note]


def test_nothing_is_prepared_without_a_model(worker: Worker) -> None:
    with pytest.raises(RemoteError, match="open one first") as refused:
        worker.get(Prepare(worker.new_id()))
    assert isinstance(refused.value, CutawayError)


def unload(worker: Worker) -> None:
    """Close its model: the next one is opened as by a worker that has just started."""
    worker.get(Unload(worker.new_id()))


def damage(path: Path, data: bytes = b"") -> None:
    """64 KiB of noise in the middle, where opening the file does not look."""
    with path.open("r+b") as handle:
        handle.seek(path.stat().st_size // 2)
        handle.write(data or os.urandom(65536))


@pytest.mark.only_linux("weights are prepared there alone")
def test_an_answer_without_numbers_names_the_prepared_weights(wide_path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64, prepared=1)
    with Worker() as worker:
        load(worker, wide_path, options)
        assert worker.get(Prepare(worker.new_id())).problem == ""
        said = answer(worker)[0]
        (file,) = kept.prepared_files()
        unload(worker)
        damage(file.path, b"\xff" * 65536)  # scales that are not numbers
        assert load(worker, wide_path, options).prepared > 0
        with pytest.raises(RemoteError, match=f"{file.path.name}: its bytes .* are damaged"):
            answer(worker)
        assert answer(worker)[0] == said


@pytest.mark.only_linux("weights are prepared there alone")
def test_damaged_weights_are_found_before_the_first_embedding(wide_path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64, prepared=1)

    def embedding(worker: Worker) -> bytes:
        return worker.get(Embed(worker.new_id(), ["the hat"])).vectors

    with Worker() as worker:
        worker.get(Load(worker.new_id(), str(wide_path), options, embeds=True))
        assert worker.get(Prepare(worker.new_id())).problem == ""
        right = embedding(worker)
        unload(worker)
        damage(kept.prepared_files()[0].path)
        loaded = worker.get(Load(worker.new_id(), str(wide_path), options, embeds=True))
        assert loaded.prepared > 0
        assert embedding(worker) == right


@pytest.mark.only_linux("weights are prepared there alone")
def test_damaged_weights_are_found_before_the_second_answer(wide_path: Path, device: str) -> None:
    """64 KiB of noise in the middle, where opening the file does not look: the second answer is
    that of the model's own file, without a word of the person's.
    """
    options = EngineOptions(device=device, ctx=64, prepared=1)
    with Worker() as worker:
        load(worker, wide_path, options)
        assert worker.get(Prepare(worker.new_id())).problem == ""
        said = answer(worker)[0]
        unload(worker)
        (file,) = kept.prepared_files()
        damage(file.path)
        assert load(worker, wide_path, options).prepared > 0
        with suppress(RemoteError):  # nonsense, or no numbers, which names the file
            answer(worker)
        (note,) = notes_of(worker)
        assert "are damaged; its weights are read from the model's file again" in note
        assert answer(worker)[0] == said
        assert worker.get(Prepare(worker.new_id())).problem == ""  # a whole one is there again
        unload(worker)
        assert load(worker, wide_path, options).prepared > 0
        assert [answer(worker)[0] for _ in range(2)] == [said] * 2
