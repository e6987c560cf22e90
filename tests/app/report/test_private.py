"""Nothing that is somebody's own gets into a report."""

import pytest

from app.report.document import scrubber

SCRUB = scrubber("/people/ada lovelace", "lovelace", "engine-host")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/people/ada lovelace/.venv/lib/libpocl.so loads", "(folder)/libpocl.so loads"),
        ("/people/ada lovelace", "~"),
        ("/srv/models/secret plan.gguf", "(folder)/secret plan.gguf"),
        ("cannot open '/srv/private/x.icd': no", "cannot open '(folder)/x.icd': no"),
        ("/usr/lib/x86_64/libcl.so", "/usr/lib/x86_64/libcl.so"),
        ("/etc/OpenCL/vendors/a.icd:3", "/etc/OpenCL/vendors/a.icd:3"),
        ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
        ("killed by lovelace on engine-host.", "killed by (user) on (machine)."),
        ("Lovelaces and 12.5 GB/s, n/a", "Lovelaces and 12.5 GB/s, n/a"),
        ("paths=/one/two:/usr/lib", "paths=(folder)/two:/usr/lib"),
    ],
)
def test_texts(text: str, says: str) -> None:
    assert SCRUB(text) == says


def test_values_at_any_depth() -> None:
    value = {"a": [{"/people/ada lovelace/x": "/people/ada lovelace/y/z"}], "n": 3, "no": None}
    assert SCRUB(value) == {"a": [{"(folder)/x": "(folder)/z"}], "n": 3, "no": None}


def test_keys_and_tokens_are_hidden() -> None:
    said = SCRUB({"CL_TOKEN": "abc", "POCL_API_KEY": "k", "CUTAWAY_CACHE": "/usr/share/x"})
    assert said == {
        "CL_TOKEN": "(hidden)",
        "POCL_API_KEY": "(hidden)",
        "CUTAWAY_CACHE": "/usr/share/x",
    }


def test_names_that_are_parts_of_words_stay() -> None:
    assert scrubber("/root", "root", "pc")("root of a pc") == "root of a pc"
    assert scrubber("/", "", "")("a / b") == "a / b"
