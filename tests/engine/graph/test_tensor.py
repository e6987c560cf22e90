"""Shapes, views and their errors. Strides are bytes, dimension 0 first."""

from dataclasses import fields

import numpy as np
import pytest

from engine.errors import ShapeError
from engine.gguf.formats import F16, F32, I32, Q4_K, Q8_0
from engine.graph import ops
from engine.graph.arrays import as_array
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf


def given(*shape: int) -> Tensor:
    return leaf("x", F32, shape, Role.INPUT)


def test_a_named_copy_differs_in_its_name_alone() -> None:
    x = given(6, 4)
    for made in (x, x.view(8, (2, 3), (24,)), ops.scale(x, 2.0)):
        copy = made.named("y", 3)
        assert copy.name == "y-3"
        for field in fields(Tensor):
            if field.name != "name":
                assert getattr(copy, field.name) is getattr(made, field.name), field.name


def test_leaves_are_packed_and_padded_to_four_dimensions() -> None:
    x = given(5, 3, 2)
    assert x.shape == (5, 3, 2, 1)
    assert x.strides == (4, 20, 60, 120)
    assert (x.nbytes, x.nelements, x.dims) == (120, 30, (5, 3, 2))
    assert x.is_contiguous
    assert x.storage is x
    assert given(1).dims == (1,)


def test_block_formats_count_blocks() -> None:
    w = leaf("w", Q4_K, (512, 3), Role.WEIGHT)
    assert w.strides == (144, 288, 864, 864)
    assert w.nbytes == 864
    with pytest.raises(ShapeError, match=r"w: rows of 300 .* Q4_K's 256: \[300, 2, 1, 1\]"):
        leaf("w", Q4_K, (300, 2), Role.WEIGHT)


@pytest.mark.parametrize("shape", [(), (1, 2, 3, 4, 5), (0,), (3, -1)])
def test_impossible_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="bad: .*dimension"):
        leaf("bad", F32, shape, Role.INPUT)


def test_reshape_infers_and_refuses() -> None:
    x = given(6, 4)
    assert x.reshape(3, -1).shape == (3, 8, 1, 1)
    assert x.reshape(2, 3, 4).strides == (4, 8, 24, 96)
    assert x.reshape(24).storage is x
    with pytest.raises(ShapeError, match=r"only one dimension can be inferred"):
        x.reshape(-1, -1)
    with pytest.raises(ShapeError, match=r"cannot infer dimension: \[6, 4, 1, 1\] and \[5, -1\]"):
        x.reshape(5, -1)
    with pytest.raises(ShapeError, match=r"dimension cannot be zero: \[6, 4, 1, 1\] and \[0, 24\]"):
        x.reshape(0, 24)
    with pytest.raises(ShapeError, match=r"dimension cannot be zero"):
        x.reshape(-1, 0)
    with pytest.raises(ShapeError, match=r"Q8_0 rows cannot be cut: \[64, 3, 1, 1\] and \[16, 12"):
        leaf("w", Q8_0, (64, 3), Role.WEIGHT).reshape(16, 12)
    with pytest.raises(
        ShapeError, match=r"x and the result differ: \[6, 4, 1, 1\] and \[5, 5, 1, 1\]"
    ):
        x.reshape(5, 5)
    with pytest.raises(ShapeError, match="not contiguous"):
        x.permute(1, 0).reshape(24)


def test_permute_sends_axis_i_to_axes_i() -> None:
    """The inverse of numpy.transpose's argument, on ggml's order of dimensions."""
    x = given(2, 3, 4, 5)
    turned = x.permute(2, 0, 3, 1)  # 2 goes to axis 2, 3 to axis 0, 4 to axis 3, 5 to axis 1
    assert turned.shape == (3, 5, 2, 4)
    assert turned.strides == (8, 96, 4, 24)

    values = np.arange(120, dtype=np.float32).reshape(5, 4, 3, 2)
    got = as_array(values.reshape(-1).view(np.uint8), turned)
    axes = [2, 0, 3, 1]
    inverse = np.argsort(axes)  # what numpy.transpose wants, were the order not reversed
    assert np.array_equal(got.T, values.T.transpose(inverse))

    back = turned.permute(*inverse.tolist())
    assert (back.shape, back.strides) == (x.shape, x.strides)
    assert x.permute(1, 0).shape == (3, 2, 4, 5)


def test_permute_errors() -> None:
    with pytest.raises(ShapeError, match=r"\(0, 0, 1, 2\) are not a permutation"):
        given(2, 3).permute(0, 0, 1, 2)
    with pytest.raises(ShapeError, match="Q8_0 rows cannot be cut"):
        leaf("w", Q8_0, (32, 2), Role.WEIGHT).permute(1, 0)
    assert leaf("w", Q8_0, (32, 2, 3), Role.WEIGHT).permute(0, 2, 1).shape == (32, 3, 2, 1)


def test_views_add_up_and_stay_inside() -> None:
    x = given(6, 5)
    window = x.view(24 + 4, (3, 2), (24,))
    inner = window.view(24, (2,))
    assert window.strides == (4, 24, 48, 48)
    assert (inner.offset, inner.storage, inner.nbytes) == (52, x, 8)
    assert window.nbytes == 24 + 12
    assert x.view(0, (6, 5)).strides[:2] == (4, 24)
    with pytest.raises(ShapeError, match=r"byte 100: \[6, 5, 1, 1\] and \[6, 1, 1, 1\]"):
        x.view(100, (6,))
    with pytest.raises(ShapeError, match="outside"):
        x.view(-4, (1,))


def test_views_do_not_cut_elements() -> None:
    x, w = given(6, 5), leaf("w", Q8_0, (64, 3), Role.WEIGHT)
    with pytest.raises(ShapeError, match=r"F32 elements cannot be cut at byte 2 .* and \[3, 1"):
        x.view(2, (3,))
    with pytest.raises(ShapeError, match="cannot be cut"):
        x.view(0, (3, 2), (26,))
    with pytest.raises(ShapeError, match="Q8_0 elements cannot be cut"):
        w.view(0, (16, 3), (68,))
    with pytest.raises(ShapeError, match="Q8_0 elements cannot be cut"):
        w.view(16, (32, 1))
    assert w.view(34, (32, 3), (68,)).nbytes == 2 * 68 + 34


def test_a_view_of_a_view_stays_inside_it() -> None:
    part = given(6, 5).view(24, (6, 2))
    with pytest.raises(ShapeError, match="outside"):
        part.view(0, (6, 3))
    with pytest.raises(ShapeError, match="outside"):
        part.view(-24, (6,))


def test_a_window_steps_within_rows() -> None:
    turned = given(6, 5).permute(1, 0)  # [5, 6]
    part = turned.window(24 + 4, (2, 3), (48, 4, 24, 24))
    values = np.arange(30, dtype=np.float32)
    data = values.view(np.uint8)[part.offset : part.offset + part.nbytes]
    assert as_array(data, part)[0, 0].tolist() == [[7, 19], [8, 20], [9, 21]]


def test_bytes_of_views_reach_from_the_first_to_the_last_element() -> None:
    x = given(6, 5)
    assert x.permute(1, 0).nbytes == x.nbytes
    assert x.view(0, (6, 3), (48,)).nbytes == 2 * 48 + 24
    column = x.view(8, (1, 5), (24,))
    assert column.nbytes == 4 * 24 + 4
    assert column.permute(1, 0).nbytes == column.nbytes


def test_contiguity_ignores_dimensions_of_one() -> None:
    x = given(6, 5)
    assert x.view(24, (6, 1), (480,)).is_contiguous
    assert not x.view(0, (3, 5), (24,)).is_contiguous
    assert not x.permute(1, 0).is_contiguous
    assert given(6, 1).permute(1, 0).is_contiguous


def test_names() -> None:
    x = given(6, 5).named("Qcur", 3)
    assert x.name == "Qcur-3"
    assert x.reshape(30).name == "Qcur-3 (reshaped)"
    assert x.permute(1, 0).name == "Qcur-3 (permuted)"
    assert x.view(0, (6,)).name == "Qcur-3 (view)"
    assert repr(x) == "<Qcur-3 F32 [6, 5]>"


def test_a_name_is_given_to_a_copy_and_never_taken_back() -> None:
    x = given(6, 5)
    before = x.name
    assert x.named("Qcur", 3) is not x
    assert x.name == before
    unnamed = ops.silu(x)
    graph = Graph.of([unnamed])
    assert unnamed.name == "node_0"
    Graph.of([ops.add(ops.silu(x), unnamed), *graph.outputs])
    assert unnamed.name == "node_0"


def test_identity_is_the_object() -> None:
    a, b = given(2), given(2)
    assert a != b
    assert len({a, b}) == 2


def test_set_rows_is_a_view_of_its_target() -> None:
    cache = leaf("cache", F16, (4, 8), Role.CACHE)
    half = cache.view(32, (4, 4), (8,))
    values, ids = leaf("v", F32, (4, 2), Role.INPUT), leaf("i", I32, (2,), Role.INPUT)
    written = ops.set_rows(half, values, ids)
    assert written.op is Op.SET_ROWS
    assert (written.storage, written.offset, written.shape) == (cache, 32, half.shape)
    assert written.view(8, (4,)).offset == 40
