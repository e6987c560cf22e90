"""--edit and --control-vector as edits."""

from pathlib import Path

import numpy as np
import pytest

from app.cli import Parser
from app.terminal.edits import add_edit_options, edits_of, parsed
from engine.errors import BadSetting
from engine.protocol import Edit


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("heads-5.h3=scale:0", Edit("heads", [5], "scale", head=3, value=0.0)),
        ("residual-8:11@answer=add:1.5", Edit("residual", [8, 9, 10], "add", "answer", value=1.5)),
        ("ffn_gate-4.c17=set:-1e30", Edit("ffn_gate", [4], "set", channels=(17, 18), value=-1e30)),
        ("ffn_moe_down-4.e17=scale:0", Edit("ffn_moe_down", [4], "scale", expert=17, value=0.0)),
        (
            "l_out-1,3:5#0.c3:9@-2=scale",
            Edit("l_out", [1, 3, 4], "scale", "-2", 0, channels=(3, 9)),
        ),
        ("embd@2:4=scale:2", Edit("embd", [], "scale", "2:4", value=2.0)),
    ],
)
def test_forms(text: str, edit: Edit) -> None:
    assert list(parsed(text)) == [edit]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("heads-5", "SITE-LAYERS"),
        ("heads-5=melt", "one of set, add"),
        ("heads-5.h1:2=scale", "one head or expert"),
        ("heads-5:5=scale", "ends before"),
        ("heads-5=scale:x", "a number after the operation"),
        ("heads-5=add:1:/nowhere/v.npz#d", "a vector in a file"),
    ],
)
def test_others_are_refused(text: str, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        list(parsed(text))


def test_vectors_of_numpy(tmp_path: Path) -> None:
    """Objects are never loaded."""
    values = np.arange(4, dtype=np.float64)
    np.save(tmp_path / "v.npy", values)
    np.savez(tmp_path / "v.npz", d=values)
    want = values.astype("<f4").tobytes()
    for name in ("v.npy", "v.npz#d"):
        (one,) = parsed(f"residual-1=project:1:{tmp_path / name}")
        assert one.vector == want
    with pytest.raises(BadSetting, match="one of d"):
        list(parsed(f"residual-1=add:1:{tmp_path / 'v.npz'}#e"))
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(BadSetting, match="a vector in a file"):
        list(parsed(f"residual-1=add:1:{tmp_path / 'o.npy'}"))


def test_options_without_a_file_are_refused() -> None:
    parser = Parser(prog="x")
    add_edit_options(parser)
    assert edits_of(parser.parse_args([])) == []
    with pytest.raises(BadSetting, match="--control-vector: None .* a file"):
        edits_of(parser.parse_args(["--random", "1"]))
