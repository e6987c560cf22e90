"""What file names tell."""

import pytest

from app import names


@pytest.mark.parametrize(
    ("file", "quant"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-270m-it-q4_k_m.gguf", "Q4_K_M"),
        ("Qwen3-30B-A3B-UD-IQ2_XXS-00001-of-00002.gguf", "UD-IQ2_XXS"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("model-BF16.gguf", "BF16"),
        ("sub/model-f16.GGUF", "F16"),
        ("F32.gguf", "F32"),
        ("Q3-model.Q6_K.gguf", "Q6_K"),
        ("Qwen3-0.6B.gguf", None),
        ("model.gguf", None),
    ],
)
def test_quant(file: str, quant: str | None) -> None:
    assert names.quant(file) == quant


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct · Q4_1"),
        ("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m · Q4_K_M"),
        ("big.Q8_0-00001-of-00003.gguf", "big · Q8_0"),
        ("Q4_0-of-mine.gguf", "Q4_0-of-mine"),
        ("tiny.gguf", "tiny"),
    ],
)
def test_title(file: str, title: str) -> None:
    assert names.title(file) == title


def test_groups_keep_folders_and_counts_apart() -> None:
    files = ["b-00002-of-00002.gguf", "b-00001-of-00002.gguf", "x/b-00001-of-00002.gguf", "a.txt"]
    files += ["b-00001-of-00003.gguf", "a.gguf"]
    found = [(g.stem, len(g.files), g.count, g.missing) for g in names.groups(files)]
    assert sorted(found) == [("a", 1, 1, 0), ("b", 1, 3, 2), ("b", 2, 2, 0), ("x/b", 1, 2, 1)]


def test_labels_fall_back_to_the_stem_where_a_quant_is_not_enough() -> None:
    files = ["m-Q4_0.gguf", "m-Q8_0.gguf", "n-Q8_0.gguf", "mmproj-F16.gguf", "k.gguf"]
    found = names.groups(files)
    labels = names.labels(found)
    assert sorted(labels) == ["Q4_0", "k", "m-Q8_0", "mmproj-F16", "n-Q8_0"]
    for group, label in zip(found, labels, strict=True):
        assert names.choose(found, label) == [group]
    assert {g.stem for g in names.choose(found, None)} == {"m-Q4_0", "m-Q8_0", "n-Q8_0", "k"}


@pytest.mark.parametrize("text", ["org/repo", "org/re.po-1:Q4_K_M", "o_g/r:mmproj-F16"])
def test_repositories(text: str) -> None:
    assert names.REPOSITORY.match(text)


@pytest.mark.parametrize(
    "text", ["repo", "a/b/c", "/a/b", "./b", "../b", "a/b:", "a b/c", "a/b:c/d"]
)
def test_not_repositories(text: str) -> None:
    assert not names.REPOSITORY.match(text)


def test_labels_of_many_files_take_a_walk_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked at once: ten times the files, about ten times the steps."""

    def steps(count: int) -> int:
        seen = [0]

        class Counted(str):
            __slots__ = ()

            def __eq__(self, other: object) -> bool:
                seen[0] += 1
                return str.__eq__(self, other)

            __hash__ = str.__hash__

        found = names.groups(f"m{i}-Q{i % 7 + 2}_K.gguf" for i in range(count))
        with monkeypatch.context() as patch:
            quant = names.quant
            patch.setattr(names, "quant", lambda file: Counted(quant(file)))
            assert len(names.labels(found)) == count
        return seen[0]

    assert steps(2000) < 40 * steps(200)
