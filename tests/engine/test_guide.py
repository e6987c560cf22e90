"""engine/README.md keeps its word: what it names exists, and its order is the one that is kept."""

import re

import pytest

from tests.test_tree import ORDER, ROOT

ENGINE = ROOT / "engine"
TEXT = (ENGINE / "README.md").read_text("utf-8")
PATH = r"`((?:[\w.]+/)*[a-z_]+\.py|(?:tests|models|layers|backends)/[a-z_/]+)`"
NAMED = sorted(set(re.findall(PATH, TEXT)))


def parts() -> list[list[str]]:
    """The rows of the table of parts, as ORDER names them."""
    table = TEXT.split("| part | holds |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| ((?:`[\w/.]+` ?)+)\|", table, re.MULTILINE)
    return [
        [
            "engine." + name.removesuffix(".py").replace("/", ".")
            for name in re.findall(r"`(.+?)`", row)
        ]
        for row in rows
    ]


def test_its_parts_are_those_of_the_import_order() -> None:
    wanted = [list(row) for row in ORDER if row[0].startswith("engine.")]
    order = [name for row in parts() for name in row]
    rank = {name: i for i, row in enumerate(wanted) for name in row}
    assert sorted(order) == sorted(rank)
    assert [rank[name] for name in order] == sorted(rank.values())


@pytest.mark.parametrize("name", NAMED)
def test_what_it_names_is_there(name: str) -> None:
    places = (
        ROOT,
        ENGINE,
        ENGINE / "models" / "text",
        ENGINE / "models",
        ROOT / "tests" / "goldens",
    )
    assert any((place / name).exists() for place in places), name


def test_its_sizes_are_those_of_the_code() -> None:
    from engine.runner.batch import MAX_BATCH, bucket_of

    sizes = sorted({bucket_of(n) for n in range(1, MAX_BATCH + 1)})
    shown = f"({', '.join(map(str, sizes[:7]))} ... {sizes[-1]})"
    assert shown in " ".join(TEXT.split())


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *((name, "models/decoder.py") for name in ("DecoderParams", "Decoder")),
        *((name, "weights/params.py") for name in ("Meta", "TOKENS")),
        *((name, "layers/attention.py") for name in ("NormedAttention",)),
        *((name, "models/kept.py") for name in ("make_caches",)),
        *((name, "layers/step.py") for name in ("LayerCache",)),
        *((name, "models/vision/base.py") for name in ("TowerParams", "Tower")),
        *((name, "layers/vision/tower.py") for name in ("groups",)),
        *((name, "layers/rope.py") for name in ("grid_table",)),
        *((name, "images/patches.py") for name in ("neighbours",)),
    ],
)
def test_names_of_the_recipe_are_those_of_the_code(name: str, where: str) -> None:
    assert name in TEXT
    assert re.search(rf"^(class |def )?{name}\b", (ENGINE / where).read_text("utf-8"), re.MULTILINE)
