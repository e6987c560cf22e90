"""What a file says, against the gguf package's own reader; tokens and differences."""

from pathlib import Path

import pytest
from gguf import GGUFReader
from msgspec.structs import replace

from app.engine import Abilities
from app.local_files import LocalFiles
from app.state.models.model import ModelState, compare
from app.state.workbench import Workbench
from engine.gguf import open_gguf
from engine.protocol import (
    ArrayValues,
    CountTokens,
    Failed,
    FileContent,
    ReadArray,
    ReadFile,
    TokenCount,
    Tokenize,
    Tokenized,
)
from engine.tokenizer import load_tokenizer
from tests.app.state.conftest import Until


def read_content(path: Path) -> FileContent:
    content = LocalFiles().answer(ReadFile(1, str(path)))
    assert isinstance(content, FileContent)
    return content


@pytest.mark.model_file
def test_content_is_what_the_gguf_package_reads(smollm2_path: Path) -> None:
    content, oracle = read_content(smollm2_path), GGUFReader(smollm2_path)
    keys = [key for key in oracle.fields if not key.startswith("GGUF.")]
    assert [row.key for row in content.metadata] == keys
    for row in content.metadata:
        value = oracle.fields[row.key].contents()
        if row.count is not None:
            assert row.count == len(value)
            read = LocalFiles().answer(ReadArray(1, str(smollm2_path), row.key))
            assert isinstance(read, ArrayValues)
            if isinstance(value[0], str):
                assert list(read.values) == value
            else:
                assert [float(text) for text in read.values] == pytest.approx(value, rel=1e-6)
        elif isinstance(value, str):
            assert row.value == value[:2000]
        elif isinstance(value, bool):
            assert row.value == str(value).lower()
        else:
            assert float(row.value) == pytest.approx(value, rel=1e-6)
    assert [(t.name, list(t.shape), t.size) for t in content.tensors] == [
        (t.name, t.shape.tolist(), int(t.n_bytes)) for t in oracle.tensors
    ]
    assert sum(size for _, size in content.types.values()) == sum(
        int(t.n_bytes) for t in oracle.tensors
    )


def test_tokens_are_the_text(tiny_path: Path, tiny_base_path: Path) -> None:
    text, files = "Hello, world 12!", LocalFiles()
    for path in (tiny_path, tiny_base_path, tiny_path):  # each its own tokenizer
        with open_gguf(path) as file:
            tokenizer = load_tokenizer(file.metadata)
        made = files.answer(Tokenize(1, str(path), text))
        assert isinstance(made, Tokenized)
        assert [row.token for row in made.tokens] == tokenizer.encode(text)
        assert "".join(row.text for row in made.tokens if not row.special) == text
        expected = TokenCount(2, len(tokenizer.encode(text, add_special=False)))
        assert files.answer(CountTokens(2, str(path), text)) == expected


def test_a_file_that_changed_is_read_again(
    tiny_path: Path, tiny_base_path: Path, tmp_path: Path
) -> None:
    path, files = tmp_path / "model.gguf", LocalFiles()
    counts = []
    for source in (tiny_path, tiny_base_path):
        path.write_bytes(source.read_bytes())
        counts.append(files.answer(Tokenize(1, str(path), "Hello")))
    assert counts == [
        LocalFiles().answer(Tokenize(1, str(p), "Hello")) for p in (tiny_path, tiny_base_path)
    ]


@pytest.mark.parametrize(("key", "words"), [("general.name", "an array"), ("nothing", "a key of")])
def test_what_is_no_array_is_refused(tiny_path: Path, key: str, words: str) -> None:
    failed = LocalFiles().answer(ReadArray(1, str(tiny_path), key))
    assert isinstance(failed, Failed)
    assert failed.kind == "BadSetting"
    assert words in failed.message


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


def test_a_changed_array_is_a_difference(tiny_path: Path, tmp_path: Path) -> None:
    """Far behind the values that are shown."""
    path, text = tmp_path / "changed.gguf", b"the"
    data = tiny_path.read_bytes()
    at = data.rindex(text, 0, data.index(b"tokenizer.ggml.token_type"))
    path.write_bytes(data[:at] + b"thE" + data[at + 3 :])
    found = compare(read_content(tiny_path), read_content(path))
    assert [(d.kind, d.name, d.where) for d in found] == [
        ("key", "tokenizer.ggml.tokens", "changed")
    ]


def test_the_state_reads_in_the_background(bench: Workbench, until: Until, tiny_path: Path) -> None:
    state = ModelState(bench.client, bench)
    state.open(tiny_path)
    assert state.looking
    until(lambda: state.content)
    state.tokenize("Hello")
    until(lambda: state.tokens)
    state.compare(tiny_path)
    until(lambda: state.other)
    assert state.differences == []
    state.read_array("tokenizer.ggml.tokens")
    until(lambda: state.array)
    state.open(None)
    assert (state.content, list(state.tokens), state.other) == (None, [], None)


def test_a_broken_file_is_a_problem(bench: Workbench, until: Until, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    state = ModelState(bench.client, bench)
    state.open(broken)
    until(lambda: state.problem)
    assert "broken.gguf" in state.problem
    assert not state.looking


def test_an_engine_without_files_is_not_asked(
    bench: Workbench, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bench.engine), "abilities", Abilities(file=False, tokenize=False))
    state = ModelState(bench.client, bench)
    state.open(tiny_path)
    state.tokenize("Hello")
    assert not state.looking
    assert (state.content, list(state.tokens)) == (None, [])
