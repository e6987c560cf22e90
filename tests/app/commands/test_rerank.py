"""`cutaway rerank`: the best texts first, from files, lines and options."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from engine.runner import load
from tests.engine.rerankers import write_reranker
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "128")
QUERY, TEXTS = "the other one", ["here and there", "a", "the hat on"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("rank") / "reranker.gguf")


@pytest.fixture(scope="module")
def scores(path: Path) -> np.ndarray:
    with load(path, device="host", ctx=128) as model:
        return model.rank(QUERY, TEXTS)


def test_lines_are_texts_and_json_has_all(path: Path, scores: np.ndarray) -> None:
    lines = "\n\n".join(TEXTS) + "\n"
    ended = run("rerank", str(path), QUERY, *HOST, "--json", given=lines)
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    order = np.argsort(-scores).tolist()
    assert [row["index"] for row in told["results"]] == order
    assert [row["text"] for row in told["results"]] == [TEXTS[i] for i in order]
    np.testing.assert_allclose([row["score"] for row in told["results"]], scores[order], atol=1e-4)


def test_people_see_the_best_files(
    path: Path, scores: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = [str(tmp_path / f"{i}.txt") for i in range(2)]
    for name, text in zip(names, TEXTS, strict=False):
        Path(name).write_text(text)
    assert (
        main(["rerank", str(path), QUERY, *names, "--text", "\x1b[31m", "--top", "2", *HOST]) == 0
    )
    title, *rows = capsys.readouterr().out.splitlines()
    assert title.split() == ["score", "tokens", "text"]
    assert len(rows) == 2
    assert "\x1b" not in "".join(rows)
    main(["rerank", str(path), QUERY, *names, *HOST])
    _, *rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith(names[int(scores[:2].argmax())])


def test_what_cannot_be_ranked_is_said(path: Path, tiny_path: Path, tmp_path: Path) -> None:
    assert_one_line_error(run_here("rerank", str(path), QUERY, *HOST, given="\n"), "one text per")
    ended = run_here("rerank", str(tiny_path), QUERY, "--text", "a", *HOST)
    assert_one_line_error(ended, "open a reranker")
    ended = run_here("rerank", str(path), QUERY, str(tmp_path / "none.txt"), *HOST)
    assert_one_line_error(ended, "No such file")
    bytes_ = tmp_path / "bytes.txt"
    bytes_.write_bytes(b"\xff\xfe")
    ended = run_here("rerank", str(path), QUERY, str(bytes_), *HOST)
    assert_one_line_error(ended, "UTF-8 text")
