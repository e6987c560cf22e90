"""The one selection: a token, a place in the model, and the way back."""

import pytest

from app.state.memory.splits import layers_of
from app.state.selection import LONGEST_PAST, Selected, Selection, layer_of
from engine.protocol import SplitRecord


@pytest.fixture
def selection(qapp: object) -> Selection:
    return Selection()


def test_a_new_place_takes_that_of_the_old_and_the_token_stays(selection: Selection) -> None:
    selection.select_token(5, 0)
    selection.select_cell(3, "gpu:0", "cache")
    assert selection.now == Selected((5, 0), layer=3, device="gpu:0", component="cache")
    selection.select_tensor("blk.4.attn_q.weight", 4)
    assert selection.now == Selected((5, 0), layer=4, tensor="blk.4.attn_q.weight")
    selection.select_operation("Qcur-4#1", 4, "gpu:0")
    assert selection.now == Selected((5, 0), layer=4, operation="Qcur-4#1", device="gpu:0")
    selection.select_head(4, 2)
    assert selection.now == Selected((5, 0), layer=4, head=2)
    selection.select_layer(4)
    assert selection.now == Selected((5, 0), layer=4)
    selection.select_split(1, "gpu:0")
    assert selection.now == Selected((5, 0), split=1, device="gpu:0")
    selection.select_device("cpu:0")
    assert selection.now == Selected((5, 0), device="cpu:0")
    selection.select_token(6, 1)
    assert selection.now == Selected((6, 1), device="cpu:0")
    selection.clear()
    assert selection.now == Selected()


def test_back_and_forward(selection: Selection) -> None:
    heard: list[Selected] = []
    selection.changed.connect(lambda: heard.append(selection.now))
    selection.back()
    selection.forward()
    selection.select_layer(3)
    selection.select_layer(3)
    selection.select_layer(5)
    assert heard == [Selected(layer=3), Selected(layer=5)]
    assert (selection.has_past, selection.has_future) == (True, False)
    for _ in range(3):
        selection.back()
    assert selection.now == Selected()
    assert (selection.has_past, selection.has_future) == (False, True)
    selection.forward()
    assert selection.now == Selected(layer=3)
    selection.select_layer(7)
    selection.forward()  # a new way forgets the old one
    assert selection.now == Selected(layer=7)
    for n in range(5 * LONGEST_PAST):
        selection.select_layer(n)
    for _ in range(5 * LONGEST_PAST):
        selection.back()
    assert selection.now.layer == 4 * LONGEST_PAST - 1


def test_what_is_forgotten_does_not_come_back(selection: Selection) -> None:
    selection.select_layer(3)
    selection.forget()
    assert selection.now == Selected()
    selection.back()
    assert selection.now == Selected()


def test_layers_of_tensors() -> None:
    assert layer_of("blk.11.ffn_up.weight", 12) == 11
    assert layer_of("enc.blk.3.attn_q.weight", 12) == layer_of("dec.blk.3.ffn_up.weight", 12) == 3
    assert layer_of("v.blk.3.attn_q.weight", 12) is None
    assert layer_of("output_norm.weight", 12) == 12
    assert layer_of("token_embd.weight", 12) is None
    assert layer_of("output.weight", 0) is None


def test_layers_of_splits() -> None:
    first = SplitRecord("cpu:0", 9, "inp_embd", "l_out-7", 0, 0, 0, 0)
    middle = SplitRecord("gpu:0", 9, "attn_norm-8", "l_out-11", 0, 0, 0, 0)
    last = SplitRecord("gpu:0", 9, "attn_norm-8", "result_output", 0, 0, 0, 0)
    assert (0 in layers_of(first), 7 in layers_of(first), 8 in layers_of(first)) == (
        True,
        True,
        False,
    )
    assert list(layers_of(middle)) == [8, 9, 10, 11]
    assert 12 in layers_of(last)
    assert 7 not in layers_of(last)
