"""Control vectors: made of pairs of texts, in llama.cpp's format, and used."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.directions import direction, like_llama, padded
from app.terminal.edits import parsed
from engine.errors import BadFile, BadSetting
from engine.gguf.control_vector import random_like, read_directions, steering, write_directions
from engine.protocol import Edit
from engine.runner import load
from tests.goldens.make_llama_tools import SIDES, write_flat
from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "64")
POSITIVE, NEGATIVE = ["the hat is on", "one thing"], ["the other is", "then a thing on"]
E = 64
GOLDENS = Path(__file__).parents[2] / "goldens"


def texts(folder: Path) -> list[str]:
    words = []
    for side, lines in (("positive", POSITIVE), ("negative", NEGATIVE)):
        (folder / side).write_text("\n".join(lines) + "\n\n", "utf-8")
        words += [f"--{side}", str(folder / side)]
    return words


def test_a_file_is_the_difference_at_the_last_token(tiny_path: Path, tmp_path: Path) -> None:
    """Read by the gguf package: names, types and keys are those that llama.cpp takes."""
    out = tmp_path / "v.gguf"
    words = ["steer", "make", str(tiny_path), *texts(tmp_path), "--out", str(out), "--raw"]
    ended = run_here(*words, *HOST, "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    with load(tiny_path, device="host", ctx=64) as model:
        sides = []
        for lines in (POSITIVE, NEGATIVE):
            found = [model.dump(line, r"l_out-\d+") for line in lines]
            sides.append({i: [one[f"l_out-{i}#0@0"][-1] for one in found] for i in (1, 2)})
    reader = gguf.GGUFReader(out)
    assert reader.fields["general.architecture"].contents() == "controlvector"
    assert reader.fields["controlvector.model_hint"].contents() == "llama"
    assert reader.fields["controlvector.layer_count"].contents() == 2
    tensors = {one.name: one for one in reader.tensors}
    assert set(tensors) == {"direction.1", "direction.2"}
    for i, row in zip((1, 2), told["layers"], strict=True):
        tensor = tensors[f"direction.{i}"]
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        a, b = (np.array(side[i], np.float64) for side in sides)
        np.testing.assert_allclose(tensor.data, a.mean(0) - b.mean(0), rtol=1e-5, atol=1e-5)
        norm = np.linalg.norm(np.concatenate([a, b]), axis=1).mean()
        assert row["layer"] == i
        assert row["residual_norm"] == pytest.approx(norm, rel=1e-5)
        assert row["auc"] is None


def test_direction_n_is_added_to_what_leaves_layer_n(tiny_path: Path, tmp_path: Path) -> None:
    """With its strength, at every token; a random one is as long and elsewhere."""
    rng, out = np.random.default_rng(0), tmp_path / "v.gguf"
    made = {i: rng.standard_normal(E).astype(np.float32) for i in (1, 2)}
    write_directions(out, made, "llama", {"auc.1": 0.5})
    words = ["dump", str(tiny_path), "-p", POSITIVE[0], "--tensors", "l_out.*", *HOST]
    layers = ("--control-vector-layers", "1:2")
    found = {}
    for name, more in (("file", ()), ("random", ("--random", "3"))):
        saved = tmp_path / f"{name}.npz"
        vector = ("--control-vector", f"{out}:-2.5")
        ended = run_here(*words, *vector, *layers, *more, "--out", str(saved), "--json")
        assert ended.returncode == 0, ended
        with np.load(saved) as file:
            added = file["l_out_edited-1#0@0"] - file["l_out-1#0@0"]
            assert "l_out_edited-2#0@0" not in file
        found[name] = added
    want = np.broadcast_to(-2.5 * made[1], found["file"].shape)
    np.testing.assert_allclose(found["file"], want, atol=1e-5)
    other = found["random"][0]
    assert np.linalg.norm(other) == pytest.approx(2.5 * np.linalg.norm(made[1]), rel=1e-4)
    assert abs(other @ made[1]) < 1e-3 * np.linalg.norm(other) * np.linalg.norm(made[1])
    by_edit = list(parsed(f"residual-1,2@answer=add:2:{out}"))
    assert [(one.layers, one.positions, one.value) for one in by_edit] == [
        ([1], "answer", 2.0),
        ([2], "answer", 2.0),
    ]
    assert by_edit[1].vector == made[2].tobytes()
    assert steering(read_directions(out))[0] == Edit.add("residual", 1, made[1])


def test_like_llama_it_is_the_file_that_llamas_generator_wrote(tmp_path: Path) -> None:
    """The file of make_llama_tools: of the same texts and weights."""
    flat, out, sides = write_flat(tmp_path / "flat.gguf"), tmp_path / "v.gguf", []
    for name, lines in zip(("positive", "negative"), SIDES, strict=True):
        (tmp_path / name).write_text(f"{lines}\n")
        sides += [f"--{name}", str(tmp_path / name)]
    words = ["steer", "make", str(flat), *sides, "--out", str(out), "--like-llama"]
    exact = ("--device", "host", "--ctx", "64", "--kv", "f32")
    ended = run_here(*words, *exact)
    assert ended.returncode == 0, ended
    with np.load(GOLDENS / "llama_tools.npz") as file:
        (theirs := tmp_path / "theirs.gguf").write_bytes(file["vector"].tobytes())
    ours, wanted = read_directions(out), read_directions(theirs)
    assert list(ours) == sorted(wanted) == [1, 2]
    for layer, values in wanted.items():
        np.testing.assert_allclose(ours[layer], values, atol=2e-3)
        assert float(ours[layer] @ values) > 0.99995
    ended = run_here(*words, "--at", "mean", *exact)
    assert_one_line_error(ended, "without --at, --chat and --raw")


def test_like_llama_the_component_is_not_centred_and_falling_rows_are_dropped() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.standard_normal((2, 40, 6)) * [3, 2, 1, 1, 1, 1] + 0.5
    ours[:5] = theirs[:5] - 1  # no element is larger
    kept = (ours - theirs)[5:]
    pairs = [({0: ours[:20], 1: ours}, {0: theirs[:20], 1: theirs})]
    pairs.append(({0: ours[20:], 1: ours}, {0: theirs[20:], 1: theirs}))
    found = like_llama(pairs, "pca")
    assert list(found) == [1]
    along = np.linalg.eigh(kept.T @ kept)[1][:, -1]
    assert abs(float(found[1].values @ along)) > 1 - 1e-9
    mean = like_llama(pairs, "mean")[1].values
    np.testing.assert_allclose(mean, kept.mean(0) / np.linalg.norm(kept.mean(0)))
    with pytest.raises(BadSetting, match="the same results"):
        like_llama([({0: ours, 1: ours}, {0: ours, 1: ours})], "mean")
    assert padded([1, 2, 3], [4], 9) == [[1, 2, 3], [4, 9, 9]]


def test_principal_component_and_held_out_pairs() -> None:
    """Against a planted direction under noise."""
    rng = np.random.default_rng(1)
    planted = np.zeros(E)
    planted[5] = 1.0
    size = rng.uniform(1, 5, (40, 1))
    negative = rng.standard_normal((40, E)) * 0.05
    positive = negative + size * planted + rng.standard_normal((40, E)) * 0.05
    for method in ("mean", "pca"):
        one = direction(positive, negative, method)
        assert one.values @ planted > 0.99
        assert np.linalg.norm(one.values) == pytest.approx(1)
        assert one.auc == 1.0
        assert one.gap is not None
        assert one.gap > 1.0
    flipped = direction(negative, positive, "pca")
    assert flipped.values @ planted < -0.99
    with pytest.raises(BadSetting, match="the same results"):
        direction(positive, positive)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"direction.0": np.ones(4, np.float32)}, "layer 0 cannot be steered"),
        ({"blk.0.x": np.ones(4, np.float32)}, "blk.0.x is not a tensor of a control vector"),
        ({"direction.1": np.ones((2, 4), np.float32)}, "not one row of F32"),
        ({"direction.1": np.ones(4, np.float16)}, "not one row of F32"),
        ({"direction.1": np.full(4, np.nan, np.float32)}, "not finite"),
        (
            {"direction.1": np.ones(4, np.float32), "direction.2": np.ones(5, np.float32)},
            "different lengths: 4 and 5",
        ),
    ],
)
def test_other_files_are_refused(tensors: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "controlvector")
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(BadFile, match=said):
        read_directions(path)


def test_what_cannot_be_made_is_named(tiny_path: Path, tmp_path: Path) -> None:
    words = texts(tmp_path)
    (tmp_path / "negative").write_text("one", "utf-8")
    out = str(tmp_path / "v.gguf")
    ended = run_here("steer", "make", str(tiny_path), *words, "--out", out, *HOST)
    assert ended.returncode != 0
    assert "2 texts, a pair for each positive one" in ended.stderr
    (tmp_path / "positive").write_text("\n", "utf-8")
    ended = run_here("steer", "make", str(tiny_path), *words, "--out", out, *HOST)
    assert "at least one text" in ended.stderr
    wrong = tmp_path / "wide.gguf"
    write_directions(wrong, {1: np.ones(65, np.float32)}, "llama")
    ended = run_here("lens", str(tiny_path), "-p", "one", "--control-vector", str(wrong), *HOST)
    assert ended.returncode != 0
    assert "'65 numbers' is not valid; expected 64 numbers" in ended.stderr


def test_a_random_vector_is_orthogonal_and_as_long() -> None:
    rng = np.random.default_rng(2)
    made = {i: rng.standard_normal(9).astype(np.float32) * i for i in (1, 3)}
    other = random_like(made, 7)
    for i, values in made.items():
        assert abs(other[i] @ values) < 1e-4
        assert np.linalg.norm(other[i]) == pytest.approx(np.linalg.norm(values), rel=1e-5)
    assert not np.array_equal(random_like(made, 8)[1], other[1])
