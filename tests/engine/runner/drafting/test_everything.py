"""Answers with drafts, a draft model and kept prefixes are those with none of these."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.memory.pools import system_pool
from engine.protocol import ChatMessage, Finished, Generate, Sampling, Speculation
from engine.runner.api import Model, load
from engine.runner.drafting.model import DraftModel
from tests.engine.runner.answering.many import Fixed, Many, asked, ids, tiny
from tests.engine.runner.drafting.test_draft_model import Guessing
from tests.engine.runner.pictures.seeing import bring, noise, says
from tests.engine.runner.prefixes import opened, save, small
from tests.goldens.vision.families import write_single

__all__ = ["small"]
K = 4
WARM = Sampling(temperature=0.8, seed=11)
OFF, ON = {"kept_chats": 0, "cache_ram": 0}, {"kept_chats": 1, "cache_ram": 64}
NAMES = (
    *("gemma3", "qwen35"),
    *(pytest.param(name, marks=pytest.mark.full) for name in ("deepseek_v3", "qwen3moe")),
)


def talks(model: Model, drafts: DraftModel | None) -> list[list[int]]:
    """What two chats in turn are answered in three rounds, in one sequence, each with a setting of
    its own; with drafts, the chats are also kept on the disk and leave RAM before the last round.
    """
    model.loaded.draft = drafts
    kind = Speculation("auto" if drafts else "none")
    many = Many(model, economy=Guessing(K) if drafts else Fixed(0))
    chats, said, restored = [ids(61, 50) * 2, ids(62, 70)], [], 0
    settings = (Sampling(temperature=0), WARM, replace(WARM, repeat_penalty=1.3))
    for turn, sampling in enumerate(settings):
        for i, chat in enumerate(chats):
            number = 10 * turn + i + 1
            many.ask(asked(number, chat, 14, sampling=sampling, speculation=kind))
            many.finish()
            end = many.end(number)
            assert isinstance(end, Finished)
            assert bool(end.stats.n_drafted) == (drafts is not None)
            restored += end.stats.n_cached if turn else 0
            said.append(many.tokens(number))
            chat += [*said[-1], *ids(number, 3)]
            if drafts is not None and turn == 1:
                assert save(model, many.slots.sequences[0], str(i)) == ""
        if turn == 1:
            model.loaded.prefixes.ram.clear()
            many.slots.sequences[0].clear()
    assert (restored > 200) == (drafts is not None)
    model.loaded.draft = None
    return said


@pytest.mark.parametrize("name", NAMES)
def test_windows_states_latent_rows_and_experts(tmp_path: Path, name: str) -> None:
    """The draft model is another one, whose guesses are mostly wrong; earlier text repeats."""
    path, other = tiny(tmp_path, name), tmp_path / "other"
    other.mkdir()
    with ExitStack() as stack:
        plain = stack.enter_context(opened(path, kv="f32", ctx=240, **OFF))
        fast = stack.enter_context(opened(path, kv="f32", ctx=240, **ON))
        by = stack.enter_context(load(tiny(other, "mistral3"), device="host", kv="f32", ctx=240))
        known = min(one.loaded.built.n_vocab for one in (fast, by))
        assert talks(fast, DraftModel(by.loaded.stepper, known)) == talks(plain, None)
    assert ("host", "kept prefixes") not in system_pool().taken


def test_pictures(tmp_path: Path) -> None:
    """A picture's chat leaves the context for another one's and comes back from RAM."""
    path = write_single(tmp_path, "mllama")

    def told(model: Model, kind: str) -> list[list[int]]:
        chats = [says("what is", bring(model, noise(seed)), "here" * 20) for seed in (3, 4)]
        many, said = Many(model, economy=Fixed(K if kind == "auto" else 0)), list[list[int]]()
        for number, (chat, begun) in enumerate([(0, 0), (1, 0), (0, 1), (1, 2)], 1):
            many.ask(request(number, chats[chat], said[begun - 1] if begun else [], kind))
            many.finish()
            end = many.end(number)
            assert isinstance(end, Finished)
            assert (end.stats.n_cached > 40) == (kind == "auto" and number > 2)
            said.append(many.tokens(number))
        return said

    with ExitStack() as stack:
        found = [
            told(stack.enter_context(opened(path, kv="f32", ctx=300, **options)), kind)
            for options, kind in ((OFF, "none"), (ON | {"kept_chats": 0}, "auto"))
        ]
    assert found[0] == found[1]


def request(number: int, chat: ChatMessage, prefix: list[int], kind: str) -> Generate:
    return Generate(
        number,
        messages=[chat],
        prefix_tokens=prefix,
        sampling=WARM,
        max_tokens=14,
        endless=True,
        bias=dict.fromkeys(ids(7, 4), 50.0),
        speculation=Speculation(kind),
    )
