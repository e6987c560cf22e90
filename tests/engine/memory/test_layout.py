"""The layout search, from the rules as they are written: every number is counted by hand."""

import pytest

from engine.memory.layout import (
    FitDevice,
    GPULayers,
    LayerLayout,
    Wish,
    assign_layers,
    best_fit,
    greedy,
)


def device(name: str, free: int, integrated: bool = False) -> FitDevice:
    return FitDevice(name, free, 0, integrated)


def shown(layout: LayerLayout) -> dict[str, tuple[int, ...]]:
    return {d.id: d.layers for d in layout.devices}


def test_greedy_goes_down_from_the_last_layer_and_starts_with_the_last_device() -> None:
    two = [device("a", 30), device("b", 20)]
    assert shown(greedy([10] * 4, two, 1.0)) == {"a": (0, 1), "b": (2, 3)}
    assert list(shown(greedy([10] * 4, two, 1.0))) == ["a", "b"]  # lower layers first


def test_greedy_never_goes_back_to_a_device_it_has_left() -> None:
    # Layer 1 does not fit b any more; layer 0 would, but goes to a too.
    two = [device("a", 100), device("b", 25)]
    assert shown(greedy([5, 15, 20], two, 1.0)) == {"a": (0, 1), "b": (2,)}


def test_greedy_stops_when_the_devices_or_the_requested_layers_are_used_up() -> None:
    assert shown(greedy([10] * 4, [device("a", 25)], 1.0)) == {"a": (2, 3)}
    assert shown(greedy([10] * 4, [device("a", 90)], 1.0, requested=3)) == {"a": (1, 2, 3)}
    assert greedy([10] * 4, [device("a", 90)], 1.0, requested=0).total == 0


def test_greedy_takes_a_share_of_what_is_free() -> None:
    assert shown(greedy([10] * 4, [device("a", 40)], 0.5)) == {"a": (2, 3)}


def test_a_device_too_small_for_the_next_layer_stays_empty() -> None:
    assert shown(greedy([50], [device("a", 60), device("b", 20)], 1.0)) == {"a": (0,), "b": ()}


def test_the_smallest_share_that_still_places_as_many_evens_out_the_load() -> None:
    even = best_fit([10] * 4, [device("a", 100), device("b", 100)], -1, force=False)
    assert shown(even) == {"a": (0, 1), "b": (2, 3)}  # not all four on b
    by_size = best_fit([10] * 6, [device("a", 200), device("b", 100)], -1, force=False)
    assert shown(by_size) == {"a": (0, 1, 2, 3), "b": (4, 5)}


def test_discrete_devices_take_the_end_and_integrated_ones_what_is_left() -> None:
    devices = [device("gpu", 20), device("igpu", 20, integrated=True)]
    assert shown(best_fit([10] * 5, devices, -1, force=False)) == {"igpu": (1, 2), "gpu": (3, 4)}


def test_as_few_devices_as_possible() -> None:
    three = [device("a", 40), device("b", 40), device("c", 40)]
    assert shown(assign_layers([10] * 4, three, Wish())) == {"a": (0, 1, 2, 3)}
    assert set(shown(assign_layers([10] * 5, three, Wish()))) == {"a", "b"}


def test_devices_used_before_stay_in_use() -> None:
    two = [device("a", 90), device("b", 90)]
    assert shown(assign_layers([10] * 4, two, Wish(), last_used=1)) == {"a": (0, 1), "b": (2, 3)}


def test_spreading_uses_all() -> None:
    three = [device(name, 90, integrated=name == "c") for name in "abc"]
    found = shown(assign_layers([10] * 6, three, Wish(spread=True)))
    assert found == {"a": (0, 1), "b": (2, 3), "c": (4, 5)}  # integrated ones like the others


def test_without_room_for_all_the_output_block_is_given_up_first() -> None:
    sizes = [10, 10, 10, 100]
    assert shown(assign_layers(sizes, [device("a", 125)], Wish())) == {"a": (0, 1, 2)}


def test_the_second_result_counts_even_when_it_places_less() -> None:
    # With the output block b takes it, and a layers 1 and 2. Without it b has no room for layer 2.
    sizes, two = [30, 10, 30, 5], [device("a", 40), device("b", 5)]
    assert best_fit(sizes, two, -1, force=False).total == 3
    assert shown(assign_layers(sizes, two, Wish())) == {"a": (1, 2), "b": ()}


def test_an_output_block_that_is_pinned_is_not_given_up() -> None:
    wish = Wish(has_output=False)
    assert shown(assign_layers([10] * 3, [device("a", 20)], wish)) == {"a": (1, 2)}


def test_a_requested_count_is_forced_onto_the_full_set() -> None:
    one = [device("a", 10)]
    assert assign_layers([10] * 5, one, Wish(requested=3)).total == 3  # though one fits
    assert shown(assign_layers([10] * 5, one, Wish(requested=3))) == {"a": (1, 2, 3)}
    assert assign_layers([10] * 5, one, Wish(requested=9)).total == 5
    assert assign_layers([10] * 5, one, Wish(requested=0)).total == 0


def test_nothing_is_forced_where_a_full_offload_is_required() -> None:
    wish = Wish(requested=3, require_full=True)
    assert assign_layers([10] * 5, [device("a", 10)], wish).total == 1


def test_requested_layers_ignore_which_devices_are_integrated() -> None:
    two = [device("a", 20), device("b", 20, integrated=True)]
    assert shown(assign_layers([10] * 4, two, Wish(requested=4))) == {"a": (0, 1), "b": (2, 3)}


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (LayerLayout(), "[]"),
        (LayerLayout((GPULayers("a", (0, 1, 2)),)), "3[ID:a Layers:3(0..2)]"),
        (LayerLayout((GPULayers("a", (0, 2)), GPULayers("b", (7,)))),
         "3[ID:a Layers:2[0 2] ID:b Layers:1(7..7)]"),
        (LayerLayout((GPULayers("a"), GPULayers("b", (1,)))), "1[ ID:b Layers:1(1..1)]"),
    ],
)  # fmt: skip
def test_printing(layout: LayerLayout, text: str) -> None:
    assert str(layout) == text


def test_layouts_are_the_same_whatever_devices_stay_empty() -> None:
    one = LayerLayout((GPULayers("a", (1, 2)),))
    assert one.digest == LayerLayout((GPULayers("b"), GPULayers("a", (1, 2)))).digest
    assert one.digest != LayerLayout((GPULayers("b", (1, 2)),)).digest
    assert one.digest != LayerLayout((GPULayers("a", (1, 3)),)).digest
    assert one.digest != LayerLayout((GPULayers("a", (1, 2), library="cuda"),)).digest
    assert len({LayerLayout().digest, LayerLayout((GPULayers("a"),)).digest}) == 1
