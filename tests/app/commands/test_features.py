"""`cutaway features` and `lens --lens`, and an edit of a feature by its folder."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.terminal.edits import parsed
from engine.arrays.autoencoder import open_autoencoder
from engine.arrays.safetensors import packed
from engine.errors import BadSetting, NotSupported
from engine.runner import load
from tests.in_process import run_here
from tests.program import assert_one_line_error

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "64")
E, N = 64, 20
THRESHOLD = 5.0  # one activation of feature 7 is 3.4, the others are larger


@pytest.fixture
def sae(tmp_path: Path) -> Path:
    """A random autoencoder of what leaves layer 1."""
    folder, rng = tmp_path / "sae", np.random.default_rng(0)
    folder.mkdir()
    shapes = {"W_enc": (E, N), "b_enc": (N,), "W_dec": (N, E), "b_dec": (E,)}
    arrays = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    arrays["threshold"] = np.full(N, THRESHOLD, np.float32)
    (folder / "sae_weights.safetensors").write_bytes(packed(arrays, {}))
    config = {"architecture": "jumprelu", "hook_name": "blocks.1.hook_resid_post"}
    (folder / "cfg.json").write_text(json.dumps(config))
    return folder


def test_features_of_each_token(tiny_path: Path, sae: Path) -> None:
    words = ("features", str(tiny_path), "--sae", str(sae), "-p", "the hat", *HOST)
    ended = run_here(*words, "--json", "--top", "3")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert told["site"] == "residual-1"
    assert told["n_features"] == N
    best = told["tokens"][-1]["features"]
    assert 0 < len(best) <= 3
    assert best[0]["activation"] >= best[-1]["activation"] > 0
    assert best[0]["name"]
    shown = run_here(*words)
    assert f"{best[0]['index']} {best[0]['activation']:.1f}" in shown.stdout
    assert "explained variance" in shown.stderr
    lens = ("lens", str(tiny_path), "-p", "the hat", *HOST, "--json")
    plain, turned = run_here(*lens), run_here(*lens, "--edit", f"=feature:{sae}#3:+9")
    assert turned.returncode == 0, turned
    before, after = (json.loads(one.stdout)["layers"] for one in (plain, turned))
    assert before[0]["top"] == after[0]["top"]
    assert before[2]["top"] != after[2]["top"]


def test_a_lens_from_a_file(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "lens.safetensors"
    path.write_bytes(
        packed({f"J.{i}": np.eye(E, dtype=np.float32) for i in (0, 1)}, {"n_prompts": "7"})
    )
    words = ("lens", str(tiny_path), "-p", "the hat", *HOST, "--json")
    plain, read = run_here(*words), run_here(*words, "--lens", str(path))
    assert read.returncode == 0, read
    told = json.loads(read.stdout)
    assert told["lens"] == {"kind": "jacobian", "layers": [0, 1, 2], "n_prompts": 7}
    assert told["layers"] == json.loads(plain.stdout)["layers"]
    (tmp_path / "lens.pt").write_bytes(b"x")
    assert_one_line_error(run_here(*words[:-1], "--lens", str(tmp_path / "lens.pt")), "pickle")


@pytest.mark.parametrize("action", ["+2.5", "-1", "=3", "off"])
def test_a_feature_is_turned_by_an_edit(tiny_path: Path, sae: Path, action: str) -> None:
    feature = 7
    (edit,) = parsed(f"residual-1=feature:{sae}#{feature}:{action}")
    own = open_autoencoder(sae)
    with load(tiny_path, device="host", kv="f32", ctx=64) as model:
        rows = model.dump("the hat is on", "l_out-1", "l_out_edited-1", edits=[edit])
    before, after = rows["l_out-1#0@0"], rows["l_out_edited-1#0@0"]
    active = own.encode(before)[:, feature]
    by = float(action) if action[0] in "+-" else (0.0 if action == "off" else 3.0) - active
    wanted = before + np.broadcast_to(by, active.shape)[:, None] * own.w_dec[feature]
    np.testing.assert_allclose(after, wanted, atol=1e-4)
    if action == "off":
        assert 0 < (active > 0).sum() < len(active)
    (same,) = parsed(f"=feature:{sae}#{feature}:{action}")
    assert (same.site, same.layers) == ("residual", [1])
    assert msgspec.json.decode(msgspec.json.encode(edit), type=type(edit)) == edit


def test_wrong_features_say_what_is_wrong(sae: Path) -> None:
    with pytest.raises(BadSetting, match="a feature from 0 to 19"):
        list(parsed(f"residual-1=feature:{sae}#20:off"))
    with pytest.raises(BadSetting, match=r"\+40 to add"):
        list(parsed(f"residual-1=feature:{sae}#5:much"))
    with pytest.raises(BadSetting, match="a feature as feature:"):
        list(parsed("residual-1=feature:3"))
    config = {"architecture": "topk", "k": 4, "hook_name": "blocks.1.hook_resid_post"}
    (sae / "cfg.json").write_text(json.dumps(config))
    assert next(iter(parsed(f"=feature:{sae}#5:+1"))).op == "add"
    with pytest.raises(NotSupported, match="it can be added"):
        list(parsed(f"=feature:{sae}#5:off"))
