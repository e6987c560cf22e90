"""What was read once is restored from the disk to the bit, or it is read again: never wrong."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from engine import prefixes as files
from engine.kvcache.causal import BITS
from engine.protocol import Finished, Reply
from engine.runner.api import Model
from engine.runner.edits import Instruction, SequenceEdits
from engine.runner.pictures.items import Item
from engine.runner.sequence import Sequenced
from engine.worker.service import Service
from tests.engine.runner.answering.many import asked, ids, tiny
from tests.engine.runner.prefixes import (
    BLOCK,
    drawn,
    equal,
    names,
    opened,
    prefilled,
    restored,
    save,
    small,
)
from tests.goldens.tiny import write_tiny

__all__ = ["small"]
N = 5 * BLOCK + 7
PROMPT: list[Item] = [*ids(41, N)]
DRAWN = 12
QUICK = ("llama", "gemma3", "deepseek_v3", "qwen35")
MOVE = ("gemma3", "llama4")
LONG = [pytest.param(name, marks=pytest.mark.full) for name in ("mamba2", "qwen3moe", "llama4")]


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_after_a_restart_logits_are_the_same_to_the_bit(tmp_path: Path, name: str) -> None:
    """Full attention, windows, latent rows, states, experts, chunks."""
    goes_on(tiny(tmp_path, name), name in MOVE, kv="f32")


@pytest.mark.parametrize("kv", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("name", ["mistral3", pytest.param("gemma3", marks=pytest.mark.full)])
def test_every_type_of_cache(tmp_path: Path, name: str, kv: str) -> None:
    goes_on(tiny(tmp_path, name), name in MOVE, kv=kv)


def goes_on(path: Path, moves: bool, **options: object) -> None:
    """In a model opened again: each step behind what was restored has the logits that it had
    before, to the bit where cells are the same ones; those of windows and chunks move.
    """
    with opened(path, **options) as model:
        expected = read_and_saved(model)
    with opened(path, **options) as model:
        sequence = Sequenced(model.loaded.stepper)
        assert restored(model, sequence, PROMPT) == N - 1
        found = drawn(sequence, sequence.append(PROMPT[-1]), DRAWN)
        assert [one.argmax() for one in found] == [one.argmax() for one in expected]
        assert np.abs(np.stack(found) - np.stack(expected)).max() < 1e-4
        assert moves or equal(found, expected)


def read_and_saved(model: Model) -> list[np.ndarray]:
    """Logits behind the prompt, all of which but the last item is saved."""
    sequence = Sequenced(model.loaded.stepper)
    prefilled(sequence, PROMPT[:-1])
    assert save(model, sequence) == ""
    return drawn(sequence, sequence.append(PROMPT[-1]), DRAWN)


def test_other_cells_give_the_same_numbers(tmp_path: Path) -> None:
    """Whatever cells were free: a restored sequence sees what it saw."""
    path = tiny(tmp_path, "llama")
    with opened(path, parallel=2, cells=0, kv="f32") as model:
        expected = read_and_saved(model)
        other, sequence = (Sequenced(model.loaded.stepper, number=n) for n in (1, 0))
        sequence.clear()
        prefilled(other, ids(3, 70))
        assert restored(model, sequence, PROMPT) == N - 1
        found = drawn(sequence, sequence.append(PROMPT[-1]), DRAWN)
        assert np.abs(np.stack(found) - np.stack(expected)).max() < 1e-5
        assert [one.argmax() for one in found] == [one.argmax() for one in expected]


def test_a_chat_goes_on_from_where_it_parts(tmp_path: Path) -> None:
    """Full attention needs whole blocks alone, and what of a tail is the same."""
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        read_and_saved(model)
        sequence = Sequenced(model.loaded.stepper)
        for same, expected in ((N - 3, N - 3), (3 * BLOCK + 5, 3 * BLOCK), (5, 0)):
            items = [*PROMPT[:same], *ids(9, N)]
            assert restored(model, sequence, items) == expected
            assert sequence.shared(items) == expected
            assert np.array_equal(prefilled(sequence, items), fresh(model, items, expected))


def fresh(model: Model, items: Sequence[Item], n: int) -> np.ndarray:
    """The logits behind the items, of which n are read in the same steps as if restored."""
    sequence = Sequenced(model.loaded.stepper)
    sequence.clear()
    if n:
        prefilled(sequence, [*PROMPT[:-1]])
        sequence.reuse([*items[:n], 1])
    return prefilled(sequence, list(items))


def test_a_state_is_restored_where_it_was_kept(tmp_path: Path) -> None:
    """At the turn, from which the next prompt may part, and at the end."""
    with opened(tiny(tmp_path, "qwen35"), kv="f32") as model:
        sequence = Sequenced(model.loaded.stepper, turn=N - 9)
        sequence.reuse(PROMPT, turn=N - 9)
        prefilled_as(sequence, PROMPT, N - 9)
        assert save(model, sequence) == ""
        for same, expected in ((N, N), (N - 2, N - 9), (N - 9, N - 9), (N - 10, 0)):
            items = [*PROMPT[:same], *ids(9, 20)]
            assert restored(model, sequence, items) == expected


def prefilled_as(sequence: Sequenced, items: list[Item], turn: int) -> None:
    sequence.reuse(items, turn)
    for _ in sequence.prefill(items, lambda: False):
        pass


def flipped(path: Path) -> None:
    head = files.read_head(path)
    assert head is not None
    part = next(one for one in head.parts if one.size)
    data = bytearray(path.read_bytes())
    end = files.aligned(max(one.start + one.size for one in head.parts))
    data[len(data) - end + part.start + part.size - 1] ^= 1
    path.write_bytes(data)


def in_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def linked(path: Path) -> None:
    other = path.with_name("elsewhere")
    path.rename(other)
    path.symlink_to(other)


LINKED = pytest.param(linked, marks=pytest.mark.only_linux("links are followed elsewhere"))


@pytest.mark.each_value
@pytest.mark.parametrize("harm", [flipped, in_header, cut, emptied, LINKED, os.unlink])
@pytest.mark.parametrize("name", ["llama", "gemma3"])
@pytest.mark.parametrize("kind", [files.BLOCKS, files.TAILS])
def test_a_damaged_file_is_read_again(
    tmp_path: Path, name: str, kind: str, harm: Callable[[Path], None]
) -> None:
    with opened(tiny(tmp_path, name), kv="f32") as model:
        expected = read_and_saved(model)
        paths = sorted(files.folder().glob(f"*{kind}"))
        harm(paths[len(paths) // 2])
        misses(model, expected)


def misses(model: Model, expected: list[np.ndarray]) -> None:
    """What is restored is less than was saved, and what follows is right."""
    sequence = Sequenced(model.loaded.stepper)
    n = restored(model, sequence, PROMPT)
    assert n < N - 1
    assert sequence.items == PROMPT[:n]
    prefilled(sequence, PROMPT[:-1])
    found = drawn(sequence, sequence.append(PROMPT[-1]), DRAWN)
    assert np.abs(np.stack(found) - np.stack(expected)).max() < 1e-4
    caches = model.loaded.built.caches
    assert all(np.count_nonzero(one.cells[:, BITS]) <= N + DRAWN for one in caches.caches)


def test_somebody_elses_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        expected = read_and_saved(model)
        before = names()
        with monkeypatch.context() as patched:
            patched.setattr(files, "user", lambda: os.geteuid() + 1)
            misses(model, expected)
        assert names() == before
        assert restored(model, Sequenced(model.loaded.stepper), PROMPT) == N - 1


def test_another_model_or_cache_has_other_files(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    with opened(path, kv="f32") as model:
        read_and_saved(model)
    others = ({"kv": "f16"}, {"kv": "f32", "activations": 8})
    for options in others:
        with opened(path, **options) as model:
            assert restored(model, Sequenced(model.loaded.stepper), PROMPT) == 0
    os.utime(path, (1, 1))
    with opened(path, kv="f32") as model:
        assert restored(model, Sequenced(model.loaded.stepper), PROMPT) == 0


def test_files_are_this_users_alone_and_go_with_their_chat(tmp_path: Path) -> None:
    """But for blocks that another chat begins with."""
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        read_and_saved(model)
        assert {path.stat().st_mode & 0o777 for path in files.folder().iterdir()} == {0o600}
        assert files.folder().stat().st_mode & 0o777 == 0o700
        sequence = Sequenced(model.loaded.stepper)
        longer = [*PROMPT[: 2 * BLOCK], *ids(8, 40)]
        sequence.clear()
        prefilled(sequence, longer)
        save(model, sequence, "2")
        files.forget_chat("1")
        assert len(names()) == len(longer) // BLOCK + 1
        assert restored(model, sequence, [*longer, 5]) == len(longer)
        assert restored(model, sequence, PROMPT) == 2 * BLOCK
        files.forget_chat("2")
        assert names() == []


def test_what_was_edited_or_follows_a_shift_is_not_kept(tmp_path: Path) -> None:
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        sequence = Sequenced(model.loaded.stepper)
        prefilled(sequence, PROMPT)
        plain = sequence.edits
        sequence.edits = SequenceEdits((cast(Instruction, None),))
        save(model, sequence)
        assert names() == []
        sequence.edits, sequence.exact = plain, BLOCK - 1
        save(model, sequence)
        assert names() == []
        sequence.exact = 3 * BLOCK + 2
        save(model, sequence)
        assert restored(model, sequence, [*PROMPT, 5]) == 3 * BLOCK + 2


def test_a_longer_chat_replaces_its_tail(tmp_path: Path) -> None:
    with opened(tiny(tmp_path, "gemma3"), kv="f32") as model:
        sequence = Sequenced(model.loaded.stepper)
        for n, n_tails in ((20, 1), (24, 1), (40, 1), (60, 2)):
            prefilled(sequence, PROMPT[:n])
            sequence.turn = 50 if n == 60 else 0
            save(model, sequence)
            assert sum(name.endswith(files.TAILS) for name in names()) == n_tails
        assert restored(model, sequence, [*PROMPT[:50], 5]) == 50
        assert restored(model, sequence, [*PROMPT[:60], 5]) == 60


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_the_folder_stays_within_its_limit(tmp_path: Path, name: str) -> None:
    """Twenty chats that begin alike: the latest are there, and no tail without its blocks."""
    with opened(tiny(tmp_path, name), kv="f32") as model:
        sequence, sizes = Sequenced(model.loaded.stepper), list[int]()
        chats = [[*ids(69, 2 * BLOCK), *ids(70 + i, 60 + 60 * (i % 2))] for i in range(20)]
        for i, chat in enumerate(chats):
            sequence.clear()
            prefilled(sequence, [*chat])
            assert save(model, sequence, str(i)) == ""
            sizes.append(sum(one.size for one in files.kept_prefixes()))
            if i == 4:
                model.loaded.prefixes.most = sizes[-1]
        assert max(sizes) == sizes[4]
        assert sizes[-1] > sizes[4] // 2
        there = {path.stem for path in files.folder().glob(f"*{files.BLOCKS}")}
        tails = [files.read_head(path) for path in files.folder().glob(f"*{files.TAILS}")]
        assert all(head is not None and there >= set(head.blocks) for head in tails)
        found = [restored(model, sequence, [*chat, 5]) for chat in chats]
        assert found[-2:] == [len(chat) for chat in chats[-2:]]
        assert max(found[:12]) <= 2 * BLOCK


def test_a_chat_larger_than_the_folder_is_said_once(tmp_path: Path) -> None:
    """Below the next answer: its first blocks are kept, and why no more are."""
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        sent = list[Reply]()
        service = Service(sent.append, set(), {}, {})
        service.take(model.loaded)
        sequence = service.answering.slots.sequences[0]
        prefilled(sequence, ids(69, 2 * BLOCK + 9))
        assert save(model, sequence) == ""
        model.loaded.prefixes.most = sum(one.size for one in files.kept_prefixes())

        def answered(number: int) -> list[str]:
            request = asked(number, ids(80 + number, 9), 2)
            service.mend(request)
            service.answering.add(request)
            while service.is_answering:
                for _ in service.answering.turn():
                    pass
            (end,) = [one for one in sent if isinstance(one, Finished) and one.id == number]
            return end.stats.notes

        assert answered(1) == []
        sequence.clear()
        prefilled(sequence, ids(70, 4 * BLOCK + 9))
        sequence.chat = "2"
        assert service.saving is not None
        service.saving.finish(20)
        (note,) = answered(2)
        assert "only its beginning is kept; raise --kept-chats" in note
        assert answered(3) == []
        assert files.kept_prefixes()
        service.stop_keeping()
        service.stop_saving()


def test_blocks_that_another_chat_begins_with_stay(tmp_path: Path) -> None:
    with opened(tiny(tmp_path, "llama"), kv="f32") as model:
        sequence = Sequenced(model.loaded.stepper)
        chats = [[*ids(69, 2 * BLOCK), *ids(80 + i, 40)] for i in range(3)]
        for i, chat in enumerate(chats):
            sequence.clear()
            prefilled(sequence, [*chat])
            assert save(model, sequence, str(i)) == ""
            os.utime(files.tails_of(str(i))[0], (i, i))
        (last,) = files.tails_of("2")
        own = [last, *(files.file_of(block) for block in files.blocks_of(last))]
        size = sum(path.stat().st_size for path in own)
        assert files.keep_within(size) == size
        assert names() == sorted(path.name for path in own)
        assert restored(model, sequence, [*chats[2], 5]) == len(chats[2])
