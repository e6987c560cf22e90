"""Which slot holds the state after which tokens, against the tokens that were read."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import NotSupported
from engine.kvcache.causal import CausalCache
from engine.kvcache.group import CacheGroup
from engine.kvcache.states import StateCache, StatePart

SLOTS = 6


@dataclass
class Device:
    """What slots hold: the tokens that were read, as a recurrence would have them."""

    cache: StateCache
    slots: list[tuple[int, ...]] = field(default_factory=lambda: [(-9,)] * SLOTS)

    def step(self, held: list[int], tokens: list[int], sequence: int = 0) -> None:
        (step,) = self.cache.start([StatePart(sequence, len(held), len(tokens))])
        assert step.source != step.target
        found = self.slots[step.source] if step.source >= 0 else ()
        assert found == tuple(held)
        self.slots[step.target] = (*found, *tokens)
        self.cache.done([step])

    def check(self, held: list[int], sequence: int = 0) -> None:
        """Every position that can be resumed at has its state."""
        for n in range(len(held) + 1):
            at = self.cache.resumable(sequence, n)
            assert at <= n
            if at:
                mine = [i for i in range(SLOTS) if self.cache.bits[i] >> sequence & 1]
                found = [self.slots[i] for i in mine if self.cache.read[i] == at]
                assert found == [tuple(held[:at])]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_slot_holds_what_it_says(data: st.DataObject) -> None:
    """Steps, failures, going back and a second sequence, in any order."""
    device, held, fresh = Device(StateCache(SLOTS)), [], iter(range(10_000))
    for _ in range(data.draw(st.integers(1, 30))):
        match data.draw(st.sampled_from(["step", "fail", "keep", "back", "beside"])):
            case "step":
                more = [next(fresh) for _ in range(data.draw(st.integers(1, 4)))]
                device.step(held, more)
                held = held + more
            case "fail":
                (step,) = device.cache.start([StatePart(0, len(held), 2)])
                device.slots[step.target] = (-1,)  # something was written there
                device.cache.remove(0, len(held))
            case "keep":
                device.cache.keep(0)
            case "back":
                n = device.cache.resumable(0, data.draw(st.integers(0, len(held))))
                device.cache.remove(0, n)
                held = held[:n]
            case "beside":
                n = device.cache.resumable(0, data.draw(st.integers(0, len(held))))
                device.cache.share(7, 0, n)
                other = held[:n]
                for _ in range(data.draw(st.integers(0, 5))):
                    more = [next(fresh)]
                    device.step(other, more, 7)
                    other = other + more
                    device.check(other, 7)
                    device.check(held)
                device.cache.remove(7, 0)
        device.check(held)
        assert device.cache.resumable(0, len(held)) == len(held)  # where it is is never lost
    assert not (device.cache.bits >> 1).any()


def test_the_step_before_can_be_undone_and_what_is_kept_stays() -> None:
    device, held = Device(StateCache(SLOTS)), [1, 2, 3]
    device.step([], held)
    device.cache.keep(0)
    for token in range(10, 30):
        device.step(held, [token])
        held = [*held, token]
        assert device.cache.resumable(0, len(held) - 1) == len(held) - 1
    assert device.cache.resumable(0, 4) == 3


def test_of_those_kept_the_one_used_longest_ago_goes() -> None:
    device, held = Device(StateCache(SLOTS)), []
    for token in range(4):
        device.step(held, [token])
        held = [*held, token]
        device.cache.keep(0)
    device.cache.remove(0, device.cache.resumable(0, 1))
    device.step([0], [9])  # goes on from the first: that is a use
    held = [0, 9]
    for token in range(20, 40):
        device.step(held, [token])
        held = [*held, token]
        device.cache.keep(0)
    assert device.cache.resumable(0, 2) in (0, 2)
    assert sorted(device.cache.read[device.cache.kept]) == list(range(len(held) - 5, len(held) + 1))


def test_the_middle_stays_and_what_is_refused_changes_nothing() -> None:
    cache = StateCache(SLOTS)
    cache.done(cache.start([StatePart(0, 0, 8)]))
    before = cache.bits.copy()
    for begin, end, words in ((2, 4, "in the middle of what a rec"), (5, None, "back to token 5")):
        with pytest.raises(NotSupported, match=words):
            cache.remove(0, begin, end)
        assert (cache.bits == before).all()
    with pytest.raises(
        NotSupported, match="continuing at token 9 without the recurrent state there"
    ):
        cache.start([StatePart(0, 9, 1)])
    cache.remove(0, 8, 9)  # nothing stands there
    assert cache.resumable(0, 8) == 8
    cache.remove(0, 0, 8)
    assert cache.resumable(0, 8) == 0


def test_without_slots_it_forbids_nothing() -> None:
    cache = StateCache(0)
    assert cache.start([StatePart(0, 5, 1)]) == []
    cache.keep(0)
    cache.remove(0, 2, 4)
    cache.share(7, 0, 3)
    assert cache.resumable(0, 77) == 77


def test_a_group_goes_on_where_all_can() -> None:
    near, states = CausalCache(12, window=4), StateCache(SLOTS)
    group = CacheGroup([CausalCache(64), near], states=states)
    for first in range(0, 20, 2):
        for cache in group.caches:
            cache.start(np.arange(first, first + 2, dtype=np.int32), 0)
        states.done(states.start([StatePart(0, first, 2)]))
        if first in (4, 10):
            states.keep(0)
    assert states.resumable(0, 13) == 12
    assert group.resumable(0, 13) == 12
    assert group.resumable(0, 11) == 0  # the window has given up what 6 sees
    with pytest.raises(NotSupported):
        group.remove(0, 3, 9)
    assert [group.resumable(0, n) for n in (12, 20)] == [0, 0]
