"""What a test freezes and lets go stays frozen to the end of its module, and then goes."""

import gc
import weakref

from tests.conftest import HEAP


class Circle:
    """Holds itself, so that only a search for garbage frees it."""

    def __init__(self) -> None:
        self.own = self


def test_a_module_ends_with_one_search_through_all() -> None:
    circle = Circle()
    there = weakref.ref(circle)
    gc.freeze()
    del circle
    gc.unfreeze()
    gc.collect()
    assert there() is not None
    assert not HEAP.is_frozen
    HEAP.freeze()
    assert there() is None
    assert HEAP.is_frozen
