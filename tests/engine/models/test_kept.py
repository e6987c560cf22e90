"""What layers keep between steps, and what becomes of it."""

import pytest

from engine.errors import BadSetting, UnsupportedModel
from engine.gguf.formats import F16, Q8_0
from engine.layers.rope import RopeParams
from engine.models.kept import (
    SLOTS,
    Both,
    Cells,
    Chunk,
    Latent,
    Nothing,
    State,
    make_caches,
    make_states,
)

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


def test_what_cannot_be_made_yet_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="layer 1 keeps: 'latent'.*cells, chunk, state, enc"):
        make_caches([ALL, Latent(64, 512, ROPE)], 300, 512, F16)


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
