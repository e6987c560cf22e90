"""What a file says, against the gguf package's own reader; tokens and differences."""

from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFReader

from app.state.models.model import ModelState, compare, read_content, tokenize
from app.state.workbench import Workbench
from app.views.models.tables import array_items
from tests.app.state.conftest import Until


@pytest.mark.model_file
def test_content_is_what_the_gguf_package_reads(smollm2_path: Path) -> None:
    content, oracle = read_content(smollm2_path), GGUFReader(smollm2_path)
    keys = [key for key in oracle.fields if not key.startswith("GGUF.")]
    assert [row.key for row in content.metadata] == keys
    for row in content.metadata:
        value = oracle.fields[row.key].contents()
        if row.array is not None:
            assert len(row.array) == len(value)
            items, texts = array_items(row.array)
            assert [at for at, _ in items] == list(range(len(value)))
            assert len(texts) == len(value)
            if isinstance(value[0], str):
                assert [text for _, text in items] == value
        elif isinstance(value, str):
            assert row.value == value[:2000]
        elif isinstance(value, bool):
            assert row.value == str(value).lower()
        else:
            assert float(row.value) == pytest.approx(value, rel=1e-6)
    assert [(t.name, list(t.shape[: t.n_dims]), t.nbytes) for t in content.tensors] == [
        (t.name, t.shape.tolist(), int(t.n_bytes)) for t in oracle.tensors
    ]
    assert sum(size for _, size in content.types.values()) == sum(
        int(t.n_bytes) for t in oracle.tensors
    )


def test_tokens_are_the_text(tiny_path: Path) -> None:
    text = "Hello, world 12!"
    tokenizer, rows = tokenize(None, tiny_path, text)
    assert [row.token for row in rows] == tokenizer.encode(text)
    assert "".join(row.text for row in rows if not row.special) == text
    again, same = tokenize(tokenizer, tiny_path, text)
    assert again is tokenizer
    assert same == rows


def test_a_file_does_not_differ_from_itself(tiny_path: Path) -> None:
    assert compare(read_content(tiny_path), read_content(tiny_path)) == []


def test_differences_name_what_is_not_the_same(tiny_path: Path) -> None:
    a = read_content(tiny_path)
    key, tensor = a.metadata[1], a.tensors[0]
    b = replace(
        a,
        metadata=(a.metadata[0], replace(key, value="other"), *a.metadata[2:-1]),
        tensors=(replace(tensor, name="new.weight"), *a.tensors[1:]),
    )
    found = {(d.kind, d.name): d.where for d in compare(a, b)}
    assert found == {
        ("key", key.key): "changed",
        ("key", a.metadata[-1].key): "only A",
        ("tensor", tensor.name): "only A",
        ("tensor", "new.weight"): "only B",
    }


def test_a_changed_array_is_a_difference(tiny_path: Path) -> None:
    a = read_content(tiny_path)
    at = next(i for i, row in enumerate(a.metadata) if row.array is not None and len(row.array) > 9)
    row = a.metadata[at]
    assert row.array is not None
    data = bytearray(row.array.data)
    data[-1] ^= 1
    changed = replace(row, array=replace(row.array, data=memoryview(bytes(data))))
    b = replace(a, metadata=(*a.metadata[:at], changed, *a.metadata[at + 1 :]))
    assert [d.name for d in compare(a, b)] == [row.key]


def test_the_state_reads_in_the_background(bench: Workbench, until: Until, tiny_path: Path) -> None:
    state = ModelState(bench)
    state.open(tiny_path)
    assert state.looking
    until(lambda: state.content)
    state.tokenize("Hello")
    until(lambda: state.tokens)
    state.compare(tiny_path)
    until(lambda: state.other)
    assert state.differences == []
    state.open(None)
    assert (state.content, state.tokens, state.other) == (None, [], None)


def test_a_broken_file_is_a_problem(bench: Workbench, until: Until, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    state = ModelState(bench)
    state.open(broken)
    until(lambda: state.problem)
    assert "broken.gguf" in state.problem
    assert not state.looking
