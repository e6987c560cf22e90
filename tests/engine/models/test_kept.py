"""What layers keep between steps, and what becomes of it."""

from types import SimpleNamespace

import pytest

from engine.errors import BadSetting
from engine.gguf.formats import F16, Q8_0
from engine.layers.rope import RopeParams
from engine.layers.shift import build_shift
from engine.models.kept import (
    SLOTS,
    Borrowed,
    Both,
    Cells,
    Chunk,
    Latent,
    Nothing,
    State,
    make_caches,
    make_states,
)
from engine.runner.stepper import shift_of

ROPE = RopeParams(32, 1e4, neox=True)
ALL = Cells(32, 64, 2, ROPE)


def test_each_window_has_a_cache_and_each_layer_its_cells() -> None:
    kept = [Cells(32, 64, 2, ROPE, window=500), ALL, Nothing(), Cells(16, 16, 1, None, window=500)]
    caches, layers = make_caches(kept, 3000, 100, F16)
    assert [(c.window, c.n_cells) for c in caches.caches] == [(500, 768), (None, 3072)]
    first, second, nothing, last = layers
    assert nothing is None
    assert first is not None
    assert second is not None
    assert last is not None
    assert [layer.cache for layer in (first, second, last)] == [0, 1, 0]
    assert [t.dims for t in (*first.leaves, *second.leaves, *last.leaves)] == [
        *((64, 768), (128, 768), (64, 3072), (128, 3072), (16, 768), (16, 768)),
    ]
    assert [t.name for t in last.leaves] == ["cache_k_l3", "cache_v_l3"]
    assert (first.rope, last.rope) == (ROPE, None)


def test_layers_of_one_chunk_share_a_cache() -> None:
    chunk = Chunk(ALL, 500)
    caches, layers = make_caches([chunk, ALL, chunk], 3000, 100, F16)
    assert [(c.window, c.chunk, c.n_cells) for c in caches.caches] == [
        (None, 500, 768),
        (None, None, 3072),
    ]
    assert [layer.cache for layer in layers if layer is not None] == [0, 1, 0]


def test_a_window_takes_no_more_than_the_context() -> None:
    caches, _ = make_caches([Cells(32, 32, 1, ROPE, window=(1 << 31) - 1)], 300, 512, F16)
    assert [c.n_cells for c in caches.caches] == [512]


def test_a_model_may_keep_nothing_at_all() -> None:
    caches, layers = make_caches([Nothing(), Nothing()], 300, 512, F16)
    assert (caches.caches, layers) == ((), [None, None])


def test_a_latent_is_one_row_of_which_the_last_channels_are_the_value() -> None:
    caches, layers = make_caches([Latent(64, 512, ROPE), ALL, Latent(64, 512, ROPE)], 300, 512, F16)
    assert [c.n_cells for c in caches.caches] == [512]
    latent, _, other = layers
    assert latent is not None
    assert other is not None
    assert [(t.name, t.dims) for t in (*latent.leaves, *other.leaves)] == [
        *(("cache_k_l0", (576, 512)), ("cache_k_l2", (576, 512))),
    ]
    assert latent.v.storage is latent.k
    assert (latent.v.dims, latent.v.offset, latent.v.strides[1]) == ((512, 512), 128, 1152)
    with pytest.raises(BadSetting, match="part of the latent's row of 48 is not a multiple"):
        make_caches([Latent(48, 512, ROPE)], 300, 512, Q8_0)


def test_cells_that_are_borrowed_take_nothing() -> None:
    caches, layers = make_caches([ALL, Nothing(), Borrowed(0)], 300, 512, F16)
    own, _, guest = layers
    assert own is not None
    assert guest is not None
    assert (guest.k, guest.v, guest.cache, guest.leaves) == (own.k, own.v, own.cache, ())
    assert len(caches.caches) == 1
    turned = build_shift([layer for layer in layers if layer and not layer.borrowed], 8)
    whole = SimpleNamespace(layers=layers, caches=caches)  # what there is of a built model
    assert len(turned.graph.effects) == len(shift_of(whole, 0).graph.effects) == 1  # type: ignore[arg-type]


def test_recurrent_layers_have_a_row_per_slot_whatever_keys_are_kept_in() -> None:
    kept = [State(48, 4, 1 << 10), ALL, State(48, 3, 0), Both(ALL, State(8, 4, 64)), State(8, 1, 4)]
    caches, layers = make_caches(kept, 300, 512, Q8_0)
    assert caches.states.n_slots == SLOTS
    assert [layer is None for layer in layers] == [True, False, True, False, True]
    leaves = [t for state in make_states(kept) if state for t in state.leaves]
    assert {(t.name, t.fmt.name, t.dims) for t in leaves} == {
        ("state_conv_l0", "F32", (3 * 48, SLOTS)),
        ("state_l0", "F32", (1 << 10, SLOTS)),
        ("state_conv_l2", "F32", (2 * 48, SLOTS)),
        ("state_conv_l3", "F32", (3 * 8, SLOTS)),
        ("state_l3", "F32", (64, SLOTS)),
        ("state_l4", "F32", (4, SLOTS)),
    }
    assert make_caches([ALL], 300, 512, F16)[0].states.n_slots == 0


def test_heads_are_whole_blocks() -> None:
    with pytest.raises(BadSetting, match="a head of 48"):
        make_caches([Cells(32, 48, 1, ROPE)], 300, 512, Q8_0)
