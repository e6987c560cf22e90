"""A model tried with parts of it changed equals one whose file was made that way."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadSetting
from engine.gguf import open_gguf
from engine.protocol import (
    AnswerScored,
    Change,
    Finished,
    Generate,
    Load,
    Piece,
    Sampling,
    ScoreAnswer,
)
from engine.runner.edits import PLAIN, edits_for
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.runner.stepper import TEXT, StepPart
from engine.scheduler.probes import Probes
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.gguf_files import Draft, drafted
from tests.goldens.tiny import ARCHITECTURES, tiny_tokens, write_tiny
from tests.kernels.harness import nmse

HOST = EngineOptions(device="host", ctx=64)
LAYER, HEAD = 1, 2
Edit = Callable[[Draft], None]


def edited(src: Path, edit: Edit) -> Path:
    """The file once more, with something in it changed."""
    with open_gguf(src) as file:
        draft = drafted(file)
    edit(draft)
    return draft.write(src.with_name("edited.gguf"))


def without_layer(number: int) -> Edit:
    def edit(draft: Draft) -> None:
        arch = draft.pairs["general.architecture"][1]
        key = f"{arch.decode() if isinstance(arch, bytes) else arch}.block_count"
        kind, count = draft.pairs[key]
        draft.pairs[key] = kind, count - 1
        found = {}
        for name, blocks in draft.tensors.items():
            part = re.match(r"blk\.(\d+)\.(.*)", name)
            if part is None:
                found[name] = blocks
            elif int(part[1]) != number:
                found[f"blk.{int(part[1]) - (int(part[1]) > number)}.{part[2]}"] = blocks
        draft.tensors = found

    return edit


def zeroed(name: str, columns: slice = slice(None)) -> Edit:
    """Columns of an F16 matrix [outputs, inputs] without any weight."""

    def edit(draft: Draft) -> None:
        blocks = draft.tensors[name]
        matrix = np.frombuffer(blocks.data, np.float16).reshape(blocks.dims[::-1]).copy()
        matrix[:, columns] = 0
        draft.tensors[name] = replace(blocks, data=matrix.tobytes())

    return edit


def logits(path: Path, tokens: list[int], changes: list[Change], device: str) -> np.ndarray:
    """Of a prompt and of a token behind it."""
    with closing(load_model(path, replace(HOST, device=device))) as model:
        sequence = Sequenced(model.stepper)
        sequence.reuse((), edits=edits_for(model.built, [], len(tokens), changes))
        prompt = sequence.begin_all(tokens[:-1], TEXT)()
        return np.vstack([prompt[4:20], sequence.append(tokens[-1])])


def heads(number: int) -> slice:
    return slice(number * 16, (number + 1) * 16)


@pytest.mark.each_value
@pytest.mark.parametrize("device", ["host", pytest.param("intel:0", marks=pytest.mark.device)])
@pytest.mark.parametrize(
    ("change", "edit"),
    [
        (Change(LAYER), without_layer(LAYER)),
        (Change(2), without_layer(2)),
        (Change(LAYER, "attention"), zeroed(f"blk.{LAYER}.attn_output.weight")),
        (Change(LAYER, "feed_forward"), zeroed(f"blk.{LAYER}.ffn_down.weight")),
        (
            Change(LAYER, "attention", HEAD),
            zeroed(f"blk.{LAYER}.attn_output.weight", heads(HEAD)),
        ),
    ],
    ids=["layer", "last layer", "attention", "feed forward", "head"],
)
def test_left_out_is_as_if_it_were_not_in_the_file(
    change: Change, edit: Edit, device: str, tiny_path: Path, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    tokens = tiny_tokens("llama")[:24].tolist()
    plain, got = (logits(path, tokens, changes, device) for changes in ([], [change]))
    assert nmse(got, plain) > 1e-3
    assert nmse(got, logits(edited(path, edit), tokens, [], device)) < 1e-7


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_factor_one_changes_nothing(architecture: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    tokens = tiny_tokens(architecture)[:24].tolist()
    ones = [
        *(Change(0, part, factor=1.0) for part in ("layer", "attention", "feed_forward")),
        Change(LAYER, "attention", HEAD, 1.0),
    ]
    plain, got = (logits(path, tokens, changes, "host") for changes in ([], ones))
    np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_layer_adds_so_much_of_what_it_added(
    architecture: str, factor: float, tmp_path: Path
) -> None:
    """The last one too, of which only the wanted rows are there."""
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    tokens = tiny_tokens(architecture)[:12].tolist()
    with closing(load_model(path, HOST)) as model:
        last = model.built.n_layer - 1
        for layer in (1, last):
            change = Change(layer, factor=factor)
            edits = edits_for(model.built, [], len(tokens), [change])
            part = StepPart(tokens, 0, range(len(tokens)), edits=edits)
            step = model.stepper.start_together([part], probes=Probes((r"l_out.*",)))
            step()
            found = {one.key.name: one.values.astype(np.float64) for one in step.probed()}
            model.stepper.end_probes()
            model.stepper.forget(0)
            before, after = found[f"l_out-{layer - 1}"], found[f"l_out-{layer}"]
            wanted = before + factor * (after - before)
            np.testing.assert_allclose(found[f"l_out_edited-{layer}"], wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture
def model(tiny_path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(tiny_path, HOST)) as opened:
        yield opened


def test_the_context_goes_on_with_what_the_same_model_read(model: LoadedModel) -> None:
    """Cells of a changed model serve neither another one nor the model as it is."""
    tokens = tiny_tokens("llama")[:9].tolist()
    changed, other = (
        edits_for(model.built, [], len(tokens), [Change(0, factor=factor)]) for factor in (0.0, 0.5)
    )
    sequence = Sequenced(model.stepper)
    for edits in (PLAIN, changed):
        assert sequence.reuse(tokens, edits=edits) == 0
        for _ in sequence.prefill(tokens, lambda: False):
            pass
        assert sequence.shared(tokens, edits) == len(tokens) - 1
        assert sequence.shared(tokens, other) == 0
    assert sequence.shared(tokens, PLAIN) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change(3), "layer"),
        (Change(-1), "layer"),
        (Change(0, "attention", 4), "head"),
        (Change(0, "attention", -1), "head"),
        (Change(0, "feed_forward", 0), "part"),
        (Change(0, factor=2.1), "factor"),
        (Change(0, factor=float("nan")), "factor"),
    ],
)
def test_what_is_not_there_cannot_be_changed(change: Change, said: str, model: LoadedModel) -> None:
    with pytest.raises(BadSetting, match=said):
        edits_for(model.built, [], 9, [change])


def test_a_worker_tries_it_and_scores_both_answers(worker: Worker, tiny_path: Path) -> None:
    """Log-probabilities are those that the answer told, under the model that wrote it.

    The cache is in float32: an answer is read in one step and was written in many, whose sums
    differ in their last bits (5e-6 in a log-probability), and of some key such a bit makes another
    number of float16 (2e-4).
    """
    skipped = [Change(LAYER)]
    worker.get(Load(worker.new_id(), str(tiny_path), replace(HOST, kv="f32")))

    def answer(changes: list[Change]) -> tuple[list[int], np.ndarray]:
        request = Generate(
            worker.new_id(),
            prompt="abc",
            sampling=Sampling(seed=1),
            max_tokens=9,
            logprobs=1,
            changes=changes,
        )
        replies = list(worker.run(request))
        assert isinstance(replies[-1], Finished)
        assert replies[-1].stats.changes == changes
        infos = [info for r in replies if isinstance(r, Piece) for info in r.tokens]
        return [i.token for i in infos], np.array([i.logprob for i in infos])

    def scored(tokens: list[int], changes: list[Change]) -> np.ndarray:
        request = ScoreAnswer(worker.new_id(), prompt="abc", tokens=tokens, changes=changes)
        reply = worker.get(request)
        assert isinstance(reply, AnswerScored)
        return np.frombuffer(reply.logprobs, "<f4")

    for changes, others in (([], skipped), (skipped, [])):
        tokens, told = answer(changes)
        np.testing.assert_allclose(scored(tokens, changes), told, atol=1e-4)
        assert np.abs(scored(tokens, others) - told).max() > 1e-2
