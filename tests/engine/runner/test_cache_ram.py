"""What leaves the context stays in RAM within its limit, and is had again from there."""

from pathlib import Path

import pytest

from engine.memory.pools import system_pool
from engine.protocol import ChatMessage, Finished, Generate
from engine.runner.prefixes.ram import OWNER
from engine.units import MIB
from tests.engine.runner.answering.many import GREEDY, Many, asked, ids, tiny
from tests.engine.runner.pictures.seeing import bring, noise, says
from tests.engine.runner.prefixes import opened, small
from tests.goldens.vision.families import write_pair, write_single

__all__ = ["small"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen35"])
def test_chats_in_turn_are_not_read_again(tmp_path: Path, name: str) -> None:
    """20 in one sequence: all but what is new comes from RAM, which the pool counts."""
    with opened(tiny(tmp_path, name), kv="f32", kept_chats=0, cache_ram=64) as model:
        many, ram = Many(model), model.loaded.prefixes.ram
        chats = [ids(50 + i, 60) for i in range(20)]
        read = known = 0
        for turn in range(3):
            for i, chat in enumerate(chats):
                number = 100 * turn + i + 1
                many.ask(asked(number, chat, 4))
                many.finish()
                end = many.end(number)
                assert isinstance(end, Finished)
                if turn:
                    read, known = read + len(chat), known + end.stats.n_cached
                chat += [*many.tokens(number), *ids(number, 1)]
        assert known >= 0.95 * read
        assert 0 < ram.size <= 64 * MIB
        assert system_pool().taken[("host", OWNER)] == ram.size
    assert ("host", OWNER) not in system_pool().taken


@pytest.mark.parametrize("family", ["mllama", pytest.param("gemma3", marks=pytest.mark.full)])
def test_pictures_are_not_read_again(tmp_path: Path, family: str) -> None:
    """Rows of a picture in its place, and such as layers look at."""
    path = write_single(tmp_path, family) if family == "mllama" else write_pair(tmp_path, family)[0]
    with opened(path, kv="f32", kept_chats=0, cache_ram=64, ctx=300) as model:
        chats = [says("what is", bring(model, noise(seed)), "here" * 20) for seed in (3, 4)]
        many = Many(model)

        def said(number: int, chat: ChatMessage, prefix: list[int]) -> tuple[list[int], int]:
            request = Generate(
                number,
                messages=[chat],
                prefix_tokens=prefix,
                sampling=GREEDY,
                max_tokens=6,
                endless=True,
            )
            many.ask(request)
            many.finish()
            end = many.end(number)
            assert isinstance(end, Finished)
            return many.tokens(number), end.stats.n_cached

        begun = [said(i + 1, chat, [])[0] for i, chat in enumerate(chats)]
        for i, chat in enumerate(chats):
            found, n_cached = said(10 + i, chat, begun[i])
            assert n_cached > 40
            model.loaded.prefixes.ram.clear()
            many.slots.sequences[0].clear()
            expected, n_cached = said(20 + i, chat, begun[i])
            assert n_cached == 0
            assert found == expected
            said(30 + i, chats[1 - i], begun[1 - i])
            said(40 + i, chats[i], begun[i])


def test_the_limit_is_kept(tmp_path: Path) -> None:
    with opened(tiny(tmp_path, "llama"), kv="f32", kept_chats=0, cache_ram=1) as model:
        many, ram = Many(model), model.loaded.prefixes.ram
        for i in range(40):
            many.ask(asked(i + 1, ids(50 + i, 150), 2))
            many.finish()
            assert ram.size <= MIB
        assert ram.size > MIB // 2
        first, last = ids(50, 150), ids(88, 150)
        many.ask(asked(90, [*first, 5], 1))
        many.finish()
        many.ask(asked(91, [*last, 5], 1))
        many.finish()
        ends = [many.end(number) for number in (90, 91)]
        counts = [one.stats.n_cached for one in ends if isinstance(one, Finished)]
        assert counts == [0, 150]
