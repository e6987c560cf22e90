"""Long chats: shifting and ending, what a shift does to the keys, and reuse of what is cached."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, ContextFull
from engine.protocol import ChatMessage, Finished, Generate, Grammar, Piece, Render, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.batch import bucket_of
from engine.runner.generate import generate
from engine.runner.prompt import encoded, make_prompt, prompt_text
from engine.runner.sequence import Sequenced
from tests.goldens.tiny import ARCHITECTURES, write_tiny

DEVICES = ["host", *(d.name for d in list_devices() if d.default)]
N_CTX = 64


@pytest.fixture(params=ARCHITECTURES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", request.param)


def answer(model: Model, request: Generate) -> tuple[list[int], Finished]:
    sequence = Sequenced(model.loaded.stepper)
    model.loaded.stepper.forget(0)
    tokens: list[int] = []
    for event in generate(model.loaded, sequence, request, lambda: False):
        if isinstance(event, Piece):
            tokens += [t.token for t in event.tokens]
        if isinstance(event, Finished):
            assert len(sequence.items) <= sequence.n_ctx
            return tokens, event
    raise AssertionError("an answer ends with Finished")


def long_answer(model: Model, when_full: str) -> tuple[list[int], Finished]:
    """Three contexts long, unless something ends it; nothing random."""
    model.loaded.tokenizer.eog = frozenset()
    request = Generate(
        1,
        prompt="abc",
        sampling=Sampling(temperature=0),
        max_tokens=3 * N_CTX,
        when_full=when_full,  # type: ignore[arg-type]
    )
    return answer(model, request)


def test_an_answer_that_repeats_itself_ends(tiny_path: Path) -> None:
    """A biased token comes again and again; a form or `endless` lets it."""
    request = Generate(
        1,
        prompt="abc",
        sampling=Sampling(temperature=0),
        max_tokens=100,
        bias={70: 1e6},
        stop_loops=True,
    )
    with load(tiny_path, device="host", ctx=256) as model:
        tokens, end = answer(model, request)
        assert (end.reason, tokens) == ("loop", [70] * 32)
        for free in ({"endless": True}, {"form": Grammar("root ::= .+", "gbnf")}):
            tokens, end = answer(model, structs.replace(request, **free))
            assert (end.reason, len(tokens)) == ("length", 100)
        tokens, end = answer(model, structs.replace(request, stop_loops=False))
        assert (end.reason, len(tokens)) == ("length", 100)


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
def test_a_chat_three_contexts_long_shifts(path: Path, device: str) -> None:
    with load(path, device=device, ctx=N_CTX) as model:
        tokens, end = long_answer(model, "shift")
        assert len(tokens) == 3 * N_CTX
        assert end.reason == "length"
        assert end.stats.n_shifts >= 4


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
def test_or_ends_as_set(path: Path, device: str) -> None:
    with load(path, device=device, ctx=N_CTX) as model:
        tokens, end = long_answer(model, "stop")
        assert end.reason == "context"
        assert end.stats.n_shifts == 0
        assert end.stats.n_prompt + len(tokens) == N_CTX + 1  # the last one is drawn, not computed


def keys(model: Model, layer: int) -> np.ndarray:
    """The cached keys of a layer, in order of their positions: [positions, D * K]."""
    stepper = model.loaded.stepper
    leaf = model.loaded.built.layers[layer]
    at = stepper.planner.placed[leaf.k]
    kind = f"<f{leaf.k.fmt.row_bytes(1)}"
    raw = at.buffer.read(at.offset, leaf.k.nbytes).view(kind).reshape(-1, leaf.k.shape[0])
    cells = model.loaded.built.caches.caches[leaf.cache].cells
    used = np.flatnonzero(cells[:, 0])
    return raw[used[np.argsort(cells[used, 1])]].astype(np.float64)


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
def test_a_shift_turns_keys_to_their_new_positions(path: Path, device: str) -> None:
    """Keys of layer 0 depend on token and position alone: shifted ones equal those made there."""
    tokens = list(range(10, 30))
    with load(path, device=device, ctx=N_CTX) as model:
        stepper = model.loaded.stepper
        stepper.step(tokens, 0, [19])
        stepper.forget(4, 9)
        shifted = keys(model, 0)
        stepper.forget(0)
        kept = tokens[:4] + tokens[9:]
        stepper.step(kept, 0, [len(kept) - 1])
        fresh = keys(model, 0)
    assert shifted.shape == fresh.shape
    assert ((shifted - fresh) ** 2).sum() <= 2e-6 * (fresh**2).sum()


def test_the_system_part_survives_a_long_prompt(tiny_path: Path) -> None:
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        tokenizer, template = model.loaded.tokenizer, model.loaded.template
        chat = [ChatMessage("system", "be brief"), ChatMessage("user", "abcdefgh" * 20)]
        whole, cut = (
            make_prompt(tokenizer, template, Generate(1, messages=chat), n_ctx)
            for n_ctx in (4 * N_CTX, N_CTX)
        )
        assert 0 < cut.keep == whole.keep < N_CTX
        assert cut.items[: cut.keep] == whole.items[: whole.keep]
        assert cut.items[cut.keep :] == whole.items[cut.keep - N_CTX + 1 :]
        assert cut.n_truncated == len(whole.items) - len(cut.items) > 0
        request = Generate(1, prompt="a" * 500, sampling=Sampling(temperature=0), max_tokens=2)
        _, end = answer(model, request)
        assert end.stats.n_truncated > 0
        assert end.stats.n_prompt <= N_CTX - 1
        with pytest.raises(ContextFull, match=str(N_CTX)):
            answer(model, Generate(2, prompt="a" * 500, when_full="stop"))


def test_the_middle_of_a_long_prompt_goes_where_that_is_chosen(tiny_path: Path) -> None:
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        tokenizer, template = model.loaded.tokenizer, model.loaded.template
        chat = [ChatMessage("system", "be brief"), ChatMessage("user", "abcdefgh" * 20)]
        request = Generate(1, messages=chat, when_full="middle")
        whole = make_prompt(tokenizer, template, request, 4 * N_CTX)
        cut = make_prompt(tokenizer, template, request, N_CTX)
        room = N_CTX - 1
        head = whole.keep + (room - whole.keep) // 2
        assert 0 < whole.keep < head < room
        assert cut.items == whole.items[:head] + whole.items[head - room :]
        assert (cut.keep, cut.n_truncated) == (whole.keep, len(whole.items) - room)


@pytest.mark.parametrize("system", [[], [ChatMessage("system", "be brief")]])
def test_the_prompt_shown_is_the_one_that_is_read(
    tiny_path: Path, system: list[ChatMessage]
) -> None:
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        tokenizer, template = model.loaded.tokenizer, model.loaded.template
        chat = [*system, ChatMessage("user", "hello"), ChatMessage("assistant", "yes")]
        chat.append(ChatMessage("user", "there"))
        text = prompt_text(template, Render(1, chat))
        read = make_prompt(tokenizer, template, Generate(1, messages=chat), 4 * N_CTX)
        assert encoded(tokenizer, template, Render(1, chat)) == (read.items, [])
        assert all(message.content in text for message in chat)
        with pytest.raises(BadSetting, match="at least one message"):
            prompt_text(template, Render(1, []))


def test_a_common_prefix_is_not_computed_again(tiny_path: Path) -> None:
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        sequence = Sequenced(model.loaded.stepper)
        greedy = Sampling(temperature=0)
        first = Generate(1, prompt="hello there", sampling=greedy, max_tokens=1)
        second = replace_prompt(first, "hello world")

        def run(request: Generate, on: Sequenced) -> tuple[list[int], Finished]:
            *pieces, end = [
                e
                for e in generate(model.loaded, on, request, lambda: False)
                if isinstance(e, Piece | Finished)
            ]
            assert isinstance(end, Finished)
            return [t.token for p in pieces for t in p.tokens], end  # type: ignore[union-attr]

        run(first, sequence)
        reused, end = run(second, sequence)
        assert 0 < end.stats.n_cached < end.stats.n_prompt
        model.loaded.stepper.forget(0)
        fresh, end = run(second, Sequenced(model.loaded.stepper))
        assert end.stats.n_cached == 0
        assert reused == fresh


def replace_prompt(request: Generate, prompt: str) -> Generate:
    import msgspec

    return msgspec.structs.replace(request, prompt=prompt)


def test_a_failed_step_leaves_no_trace(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        stepper = model.loaded.stepper
        stepper.step([1, 2, 3], 0, [2])
        before = [c.cells.copy() for c in model.loaded.built.caches.caches]

        def broken(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(stepper.planner, "reserve", broken)
        with pytest.raises(MemoryError):
            stepper.step([4], 3, [0])
        for cache, cells in zip(model.loaded.built.caches.caches, before, strict=True):
            np.testing.assert_array_equal(cache.cells, cells)


def test_buckets_pad_a_third_at_most() -> None:
    sizes = sorted({bucket_of(n) for n in range(1, 513)})
    assert sizes == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert all(n <= bucket_of(n) < max(n * 1.5, 2) for n in range(1, 513))


@pytest.mark.parametrize("outputs", [[1, 2, 3, 4, 5], [5, 0, 1, 2, 3, 4], [0, 2, 3, 4, 5], [4]])
def test_logits_are_of_the_tokens_that_were_asked_for(outputs: list[int], tiny_path: Path) -> None:
    """Also where so many are asked for that they fill the bucket of all."""
    with load(tiny_path, device="host", ctx=N_CTX) as model:
        stepper, tokens = model.loaded.stepper, [5, 6, 7, 8, 9, 10]
        every = stepper.step(tokens, 0, range(6))
        stepper.forget(0)
        got = stepper.step(tokens, 0, outputs)
        np.testing.assert_allclose(got, every[outputs], rtol=1e-4, atol=1e-4)
