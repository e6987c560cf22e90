"""Against llama.cpp's own tools on the tiny llama: figures and files that they wrote."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.gguf.control_vector import Directions, read_directions, steering
from engine.gguf.dequantize import dequantize
from engine.gguf.encode_k import encode_k
from engine.gguf.formats import Q4_K, Q5_K, Q6_K, Format
from engine.gguf.imatrix import read_imatrix
from engine.gguf.reader import open_gguf
from engine.laboratory.library import quality, record_texts
from engine.laboratory.swaps import output_error
from engine.protocol import Edit, Estimate, Generate, Piece, Sampling
from engine.runner import Model, load
from engine.runner.generate import generate
from engine.runner.perplexity import score_in_parts
from engine.settings import EngineOptions
from tests.goldens.make_llama_tools import (
    CHUNKS,
    CTX,
    REAL,
    SIDES,
    STRENGTH,
    TEXT,
    TINY,
    WEIGHED,
    N,
    Spoken,
    directions,
    k_weights,
    real_directions,
    write_coarse,
    write_f16,
    write_flat,
)

GOLDENS = Path(__file__).parents[2] / "goldens" / "llama_tools.npz"
EXACT = {"device": "host", "kv": "f32", "ctx": CTX}


@pytest.fixture(scope="module")
def told() -> dict[str, np.ndarray]:
    with np.load(GOLDENS) as file:
        return dict(file)


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flat(tmp_path_factory.mktemp("flat") / "flat.gguf")


@pytest.fixture
def model(flat: Path) -> Iterator[Model]:
    with load(flat, **EXACT) as opened:
        yield opened


def test_quality_is_what_llama_perplexity_measures(
    told: dict[str, np.ndarray], flat: Path, tmp_path: Path
) -> None:
    """In both memory modes, and rounded as the tool does."""
    coarse, options = write_coarse(tmp_path / "coarse.gguf"), EngineOptions(**EXACT)
    wanted = [Estimate(*pair) for pair in told["kld"][:8].reshape(4, 2)]
    found = {}
    for name, more in (
        ("both", {"in_turn": False}),
        ("in turn", {"in_turn": True}),
        ("rounded", {"in_turn": False, "like_llama": True}),
    ):
        measured = quality(flat, TEXT, coarse, ctx=CTX, options=options, n_chunks=CHUNKS, **more)
        assert measured.in_turn == (name == "in turn")
        ours = found[name] = measured.estimates
        assert ours is not None
        assert ours.n == CHUNKS * (CTX // 2 - 1)
        assert ours.kld.value == pytest.approx(wanted[1].value, rel=0.02)
        assert ours.ln_ratio.value == pytest.approx(wanted[0].value, abs=0.002)
        assert ours.dp_rms.value == pytest.approx(wanted[2].value, rel=0.02, abs=5e-6)
        assert ours.same_top.value == pytest.approx(wanted[3].value, abs=0.005)
        assert ours.kld_max == pytest.approx(float(told["kld"][8]), rel=0.02)
        pairs = zip((ours.ln_ratio, ours.kld, ours.dp_rms, ours.same_top), wanted, strict=True)
        for one, other in pairs:
            assert one.error == pytest.approx(other.error, rel=0.02, abs=5e-6)
    assert found["both"].kld.value == pytest.approx(found["in turn"].kld.value, abs=1e-4)


def test_the_importance_matrix_is_that_of_llama_imatrix(
    told: dict[str, np.ndarray], model: Model, tmp_path: Path
) -> None:
    """Counts are equal, each channel within 1 %."""
    text, theirs = tmp_path / "text.txt", tmp_path / "theirs.gguf"
    tokens = model.loaded.tokenizer.encode(TEXT, parse_special=False)[: CHUNKS * CTX]
    text.write_text(model.loaded.tokenizer.decode(tokens), encoding="utf-8")
    theirs.write_bytes(told["imatrix"].tobytes())
    record_texts(model, [text], tmp_path / "out", "imatrix", n_ctx=CTX)
    ours, wanted = read_imatrix(tmp_path / "out" / "imatrix.gguf"), read_imatrix(theirs)
    assert set(ours.sums) == set(wanted.sums)
    assert (ours.chunks, ours.chunk_size) == (wanted.chunks, wanted.chunk_size) == (CHUNKS, CTX)
    for name, sums in wanted.sums.items():
        np.testing.assert_array_equal(ours.counts[name], wanted.counts[name])
        np.testing.assert_allclose(ours.sums[name], sums, rtol=0.01)


def perplexity(model: Model, vectors: Directions, layers: range) -> float:
    made = steering(vectors, STRENGTH, layers) if vectors else []
    loaded = model.loaded
    scored = score_in_parts(
        loaded.stepper, loaded.tokenizer, TEXT, CTX, 0, lambda: False, edits=made
    )
    return next(one[2].perplexity for one in scored if one is not None and one[0] == CHUNKS)


def test_vectors_steer_as_in_llama_cpp(
    told: dict[str, np.ndarray], model: Model, tmp_path: Path
) -> None:
    """Perplexities of a steered model, so that a direction at the next layer is another number:
    ours at layer 1 alone and at both, and the file that llama-cvector-generator wrote.
    """
    (theirs := tmp_path / "vector.gguf").write_bytes(told["vector"].tobytes())
    ours = [
        perplexity(model, {}, range(0)),
        perplexity(model, directions(), range(1, 2)),
        perplexity(model, directions(), range(1, 3)),
        perplexity(model, read_directions(theirs), range(1, 3)),
    ]
    np.testing.assert_allclose(ours, told["perplexity"], rtol=5e-4)
    assert np.ptp(told["perplexity"]) > 10
    off_by_one = perplexity(model, directions(), range(2, 3))
    assert abs(off_by_one / told["perplexity"][1] - 1) > 0.01


def said(model: Model, prompt: str, edits: list[Edit]) -> bytes:
    """Greedy tokens after a prompt, as llama-completion writes them: without zero bytes."""
    greedy = Sampling(temperature=0)
    request = Generate(0, prompt=prompt, sampling=greedy, max_tokens=N, edits=edits)
    tokens = [
        token.token
        for one in generate(model.loaded, model.conversation, request, lambda: False)
        if isinstance(one, Piece)
        for token in one.tokens
    ]
    assert len(tokens) == N
    text = b"".join(model.loaded.tokenizer.piece(token) for token in tokens)
    return text.replace(b"\0", b"")


def check_said(
    model: Model, told: dict[str, np.ndarray], case: Spoken, ours: Directions, theirs: Directions
) -> None:
    """A model steered in no way and in three writes what llama.cpp writes, and four texts."""
    first, last = case.layers
    cases = {
        "plain": [],
        "ours": steering(ours, case.strength, range(first, last + 1)),
        "one": steering(ours, case.strength, range(first, first + 1)),
        "theirs": steering(theirs, case.theirs, range(first, last + 1)),
    }
    start = "real_" if case is REAL else ""
    wanted = {name: told[f"said_{start}{name}"].tobytes() for name in cases}
    assert {name: said(model, case.prompt, edits) for name, edits in cases.items()} == wanted
    assert len(set(wanted.values())) == len(cases)


def test_32_greedy_tokens_are_those_of_llama_cpp(
    told: dict[str, np.ndarray], model: Model, tmp_path: Path
) -> None:
    (theirs := tmp_path / "vector.gguf").write_bytes(told["vector"].tobytes())
    check_said(model, told, TINY, directions(), read_directions(theirs))


@pytest.mark.full
def test_a_real_model_is_steered_as_by_llama_cpp(
    told: dict[str, np.ndarray], smollm2_path: Path, tmp_path: Path
) -> None:
    theirs = dict(zip(range(10, 13), told["real_vector"], strict=True))
    path = write_f16(smollm2_path, tmp_path / "real.gguf")
    with load(path, kv="f32", ctx=CTX, prepared=0) as model:
        check_said(model, told, REAL, real_directions(), theirs)


@pytest.mark.parametrize("fmt", [Q4_K, Q5_K, Q6_K], ids=str)
def test_blocks_are_those_of_llama_quantize(told: dict[str, np.ndarray], fmt: Format) -> None:
    """All bytes: the encoder tries the same scales in the same order."""
    np.testing.assert_array_equal(encode_k(k_weights(), fmt), told[fmt.name])


def test_llama_quantize_takes_our_importance_matrix(
    told: dict[str, np.ndarray], model: Model, flat: Path, tmp_path: Path
) -> None:
    """What it wrote by a matrix recorded here loses less, weighted by that matrix, than without."""
    (path := tmp_path / "imatrix.gguf").write_bytes(told["imatrix"].tobytes())
    matrix, kind = read_imatrix(path), gguf.GGMLQuantizationType.Q4_0
    squares = (matrix.sums[WEIGHED] / matrix.counts[WEIGHED]).astype(np.float64).reshape(-1)
    with open_gguf(flat) as file:
        values = dequantize(file.data(WEIGHED), file.tensors[WEIGHED].fmt)
    weighed, plain = (
        output_error(values, gguf.quants.dequantize(blocks, kind), squares)
        for blocks in (told["weighed"], gguf.quants.quantize(values, kind))
    )
    assert weighed < 0.9 * plain


def test_the_generator_measures_one_layer_before_it_adds(
    told: dict[str, np.ndarray], model: Model, tmp_path: Path
) -> None:
    """`direction.1` of llama-cvector-generator is the mean difference of what leaves layer 0, of
    length 1, over all tokens; the shorter text is padded.
    """
    (path := tmp_path / "vector.gguf").write_bytes(told["vector"].tobytes())
    theirs = read_directions(path)
    assert sorted(theirs) == [1, 2]
    sides = []
    lines = [side.split("\n") for side in SIDES]
    ids = [[model.loaded.tokenizer.encode(one) for one in side] for side in lines]
    blank = model.loaded.tokenizer.encode(" ")[-1:]
    for side, other in ((0, 1), (1, 0)):
        rows: dict[int, list[np.ndarray]] = {1: [], 2: []}
        for tokens, beside in zip(ids[side], ids[other], strict=True):
            padded = tokens + blank * max(0, len(beside) - len(tokens))
            text = model.loaded.tokenizer.decode(padded)
            for layer, kept in rows.items():
                kept.append(next(iter(model.dump(text, f"l_out-{layer - 1}").values())))
        sides.append({layer: np.concatenate(kept) for layer, kept in rows.items()})
    for layer, direction in theirs.items():
        mean = (sides[0][layer] - sides[1][layer]).astype(np.float64).mean(axis=0)
        cosine = float(mean @ direction / np.linalg.norm(mean) / np.linalg.norm(direction))
        assert cosine > 0.999
        assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-4)
