"""How a running answer's tokens came to be: the same numbers as later, and within their share."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.errors import NotSupported
from engine.inside.token import budget
from engine.inside.token import watch as token_watch
from engine.inside.token.budget import LookBudget
from engine.inside.token.glance import Glance
from engine.inside.token.watch import TokenWatch
from engine.protocol import (
    Examine,
    Finished,
    Generate,
    Lens,
    Live,
    Load,
    Look,
    Piece,
    ProbedTokens,
    Reply,
    Sampling,
    TokenInside,
)
from engine.runner import load, watch
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.inside.token import oracle

N = 12
ASK = Generate(1, prompt="abc", sampling=Sampling(0, frequency_penalty=-100), max_tokens=N)
ALL = Live(lens=True, top_k=4, attention=True, rows=[1], choice=True)


@pytest.fixture
def model(tiny_base_path: Path) -> Iterator[Model]:
    with load(tiny_base_path, device="host", ctx=128) as opened:
        yield opened


def told(model: Model, live: Callable[[], Live]) -> list[Reply]:
    model.loaded.built.caches.clear()
    sequence = Sequenced(model.loaded.stepper)
    with closing(TokenWatch(model.loaded, sequence, ASK, live)) as looking:
        return list(generate(model.loaded, sequence, ASK, oracle.never, looking))


def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LOOK_SHARE", 1e9)


def ids(replies: list[Reply]) -> list[int]:
    return [info.token for r in replies if isinstance(r, Piece) for info in r.tokens]


def looks(replies: list[Reply]) -> list[TokenInside]:
    return [r for r in replies if isinstance(r, TokenInside)]


def wanted(lens: Lens | None) -> np.ndarray:
    assert lens is not None
    return np.frombuffer(lens.wanted_logp, "<f4")


def test_what_is_told_live_is_what_is_found_later(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = told(model, Live)
    look_always(monkeypatch)
    replies = told(model, lambda: ALL)
    assert ids(replies) == ids(plain)
    assert not looks(plain)
    found = looks(replies)
    tokens = ids(plain)
    assert [one.index for one in found] == list(
        range(2, N - 1)
    )  # one step is plain, the last token is not computed
    assert [one.context is not None for one in found] == [True, *[False] * (N - 4)]
    first = found[0].context
    assert first is not None
    n_prompt = len(model.loaded.tokenizer.encode("abc"))
    read = np.frombuffer(first.ids, "<i4").tolist()
    assert read == [*model.loaded.tokenizer.encode("abc"), *tokens[:2]]
    conversation = Sequenced(model.loaded.stepper)
    model.loaded.built.caches.clear()
    for one in found:
        asked = Examine(
            2,
            prompt="abc",
            prefix_tokens=tokens,
            at=n_prompt + one.index,
            lens=True,
            top_k=4,
            attention_layers=[1],
            sampling=ASK.sampling,
        )
        later = oracle.look(model, conversation, asked)
        assert one.lens is not None
        assert one.attention is not None
        assert later.lens is not None
        assert later.attention is not None
        assert one.lens.wanted == tokens[one.index]
        assert one.attention.n_places == n_prompt + one.index
        np.testing.assert_allclose(wanted(one.lens), wanted(later.lens), atol=2e-3)
        shares = (np.frombuffer(each.attention.rows[1], "<f4") for each in (one, later))  # type: ignore[union-attr]
        np.testing.assert_allclose(*shares, atol=1e-4)
        assert one.choice is not None
        assert later.choice is not None
        assert [s.n_left for s in one.choice.steps] == [s.n_left for s in later.choice.steps]


def test_nothing_is_done_where_nobody_looks(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("somebody looked")

    monkeypatch.setattr(Glance, "of", never)
    monkeypatch.setattr(TokenWatch, "seen", never)
    assert not looks(told(model, Live))
    assert not model.loaded.stepper.planner.probed_plans


def test_pinned_probes_go_on_beside_it(
    tiny_base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a step is looked at or not, each token's numbers come once, of the same results;
    queries that are turned for a cache of blocks have no name.
    """
    due = iter([False, True] * N)
    monkeypatch.setattr(LookBudget, "is_due", lambda _: next(due))
    with load(tiny_base_path, device="host", ctx=128, kv="q4_0") as turned:
        replies = told(turned, lambda: Live(probes=[".*"], lens=True, attention=True))
    strips = [r for r in replies if isinstance(r, ProbedTokens)]
    assert {tuple(row.name for row in one.rows) for one in strips} == {
        tuple(row.name for row in strips[0].rows)
    }
    n_rows = len(strips[0].rows)
    assert n_rows > 3
    assert sum(len(one.rms) // 4 // n_rows for one in strips) == N - 1
    assert len(looks(replies)) == (N - 1) // 2


def test_looks_keep_to_their_share(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only steps and looks move: plain steps take 1, looks 2 more, 1 later, and 1
    in the step that follows; the first, which makes a plan, 6 more, and the fourth 20. What is
    beyond the share is paid back, by the next answer where one ends before.
    """
    now, idle, looking, cold, share, most = 0.0, 0.0, 0.0, False, 0.25, 4.0
    began: list[float] = []
    monkeypatch.setattr(token_watch, "perf_counter", lambda: now)
    monkeypatch.setattr(budget, "perf_counter", lambda: now)
    monkeypatch.setattr(budget, "LOOK_SHARE", share)
    monkeypatch.setattr(budget, "GUESS", 4.0)
    real_start, real_lens = Sequenced.start, Glance.lens

    def start(self: Sequenced, token: int, recorder: object, probes: object = ()) -> object:
        nonlocal now, looking, cold
        more = float(cold)
        if probes:
            assert looking + most <= share * (now - idle), "there is time for it"
            more += 2 + {0: 6, 3: 20}.get(len(began), 0)
            began.append(now)
        now, looking, cold = now + 1 + more, looking + more, bool(probes)
        given = (probes,) if probes else ()
        return real_start(self, token, recorder, *given)  # type: ignore[arg-type]

    def lens(self: Glance, *given: object) -> Lens:
        nonlocal now, looking
        now, looking = now + 1, looking + 1
        return real_lens(self, *given)  # type: ignore[arg-type]

    ended: list[Stepper] = []
    monkeypatch.setattr(Stepper, "end_probes", ended.append)  # it takes as long as a look to begin
    monkeypatch.setattr(Sequenced, "start", start)
    monkeypatch.setattr(Glance, "lens", lens)
    sequence, looks = Sequenced(model.loaded.stepper), LookBudget()
    n_looks = []
    for n in (100, 60, 20, 60, 120):
        model.loaded.built.caches.clear()
        many = Generate(1, prompt="abc", sampling=ASK.sampling, max_tokens=n, when_full="stop")
        with closing(
            TokenWatch(model.loaded, sequence, many, lambda: Live(lens=True), looks)
        ) as one:
            replies = list(generate(model.loaded, sequence, many, oracle.never, one))
        assert isinstance(replies[-1], Finished)
        n_looks.append(len(began))
        now, idle = now + 1000, idle + 1000  # nobody answers: that pays for nothing
        sequence.items = []
    assert not ended
    assert n_looks[0] == 4
    assert looking >= 0.8 * share * (now - idle), "what there is time for is looked at"


@pytest.mark.parametrize("error", [NotSupported("looking here"), None])
def test_where_it_cannot_the_answer_goes_on(
    model: Model, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    plain = told(model, Live)
    if error is None:
        monkeypatch.setattr(model.loaded.device, "budget", model.loaded.device.used + 10)
    else:

        def refuse(*_: object) -> None:
            raise error

        monkeypatch.setattr(Glance, "lens", refuse)
    look_always(monkeypatch)
    replies = told(model, lambda: ALL)
    assert ids(replies) == ids(plain)
    problems = [r.problem for r in replies if isinstance(r, ProbedTokens | TokenInside)]
    assert len(problems) == 1
    assert problems[0]


def test_a_shift_tells_the_context_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    look_always(monkeypatch)
    long = Generate(1, prompt="abc" * 30, sampling=ASK.sampling, max_tokens=60)
    sequence = Sequenced(model.loaded.stepper)
    model.loaded.built.caches.clear()
    with closing(TokenWatch(model.loaded, sequence, long, lambda: Live(lens=True))) as one:
        found = looks(list(generate(model.loaded, sequence, long, oracle.never, one)))
    assert sequence.n_shifts == 1
    assert sum(one.context is not None for one in found) == 2


def test_times_of_a_step_once_in_a_while(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.0)
    found = looks(told(model, lambda: Live(step=True)))
    assert [one.index for one in found] == list(range(N - 1))
    for one in found:
        assert one.step is not None
        assert one.step.launches
        assert one.lens is None


def test_by_an_order_while_it_is_written(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), EngineOptions(device="host", ctx=256)))
    request = Generate(worker.new_id(), prompt="abc", sampling=ASK.sampling, max_tokens=10**6)
    seen: list[TokenInside] = []
    for n, reply in enumerate(worker.run(request, lambda: len(seen) == 2)):
        if n == 5:
            worker.send(Look(request.id, Live(lens=True, attention=True)))
        if isinstance(reply, TokenInside):
            seen.append(reply)
            assert reply.lens is not None
    assert isinstance(reply, Finished)
    assert len(seen) >= 2
