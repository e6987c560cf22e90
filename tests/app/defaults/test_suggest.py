"""Sampling that suits a model: each place with real files of its kind, and the order of places."""

import json
import os
from pathlib import Path
from typing import Any

import gguf
import pytest

from app.defaults import ModelFacts, Suggested, facts_of, suggested, suggested_questions
from app.defaults.curated import ENTRIES, entry_for
from app.defaults.places import keep_generation_config
from app.defaults.suggest import FIELDS
from engine.gguf import open_gguf
from engine.gguf.general import general_values
from engine.protocol import Sampling

F32, F64, I32, U8, STR, BOOL = (
    gguf.GGUFValueType[name] for name in ("FLOAT32", "FLOAT64", "INT32", "UINT8", "STRING", "BOOL")
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any settings."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "home"


def model(
    path: Path, *keys: tuple[str, Any, gguf.GGUFValueType], architecture: str = "llama"
) -> Path:
    """A file of metadata alone, with a chat template."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_chat_template("{{ messages }}")
    for key, value, kind in keys:
        writer.add_key_value(key, value, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def of(path: Path) -> Suggested:
    return suggested(facts_of(path))


def test_nothing_known_is_the_programs_default(tmp_path: Path) -> None:
    made = of(model(tmp_path / "a.gguf"))
    assert made.sampling == Sampling()
    assert set(made.origins.values()) == {"program"}


def test_the_files_keys(tmp_path: Path) -> None:
    path = model(
        tmp_path / "a.gguf",
        ("general.sampling.temp", 0.6, F32),
        ("general.sampling.top_p", 0.95, F32),
        ("general.sampling.top_k", 20, U8),
        ("general.sampling.penalty_repeat", 1, I32),
        ("general.sampling.mirostat", 0, I32),
    )
    made = of(path)
    assert (made.sampling.temperature, made.sampling.top_p) == (0.6, 0.95)  # not 0.949999988
    assert (made.sampling.top_k, made.sampling.min_p) == (20, 0.05)
    assert made.origins["temperature"] == made.origins["top_k"] == "file"
    assert made.origins["min_p"] == "program"
    assert made.text("top_p") == "from the model's file"
    assert "mirostat is not applied" in made.notes[0]


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("temp", "hot", STR),
        ("temp", True, BOOL),
        ("temp", float("nan"), F32),
        ("temp", -1.0, F32),
        ("top_p", 1.5, F64),
        ("top_k", 1.5, F32),
        ("penalty_last_n", -2, I32),
        ("sequence", "min_p;top_k", STR),
        ("sequence", "", STR),
        ("sequence", 3, I32),
    ],
)
def test_a_wrong_value_costs_only_itself(
    tmp_path: Path, key: str, value: Any, kind: gguf.GGUFValueType
) -> None:
    others = [("general.sampling.min_p", 0.1, F32)]
    made = of(model(tmp_path / "a.gguf", (f"general.sampling.{key}", value, kind), *others))
    assert made.sampling == Sampling(min_p=0.1)
    assert len(made.notes) == 1


def test_a_sequence_switches_off_what_it_does_not_name(tmp_path: Path) -> None:
    made = of(model(tmp_path / "a.gguf", ("general.sampling.sequence", "top_k;temperature", STR)))
    assert (made.sampling.top_p, made.sampling.min_p) == (1.0, 0.0)
    assert (made.sampling.top_k, made.sampling.temperature) == (40, 0.8)
    assert made.origins["top_p"] == "file"


def test_general_values_are_bounded(tmp_path: Path) -> None:
    path = model(tmp_path / "a.gguf", ("general.description", "x" * 5000, STR))
    with open_gguf(path) as file:
        assert len(str(general_values(file.metadata)["general.description"])) == 1000


GENERATION = {"temperature": 0.7, "top_k": 33, "repetition_penalty": 1.05, "max_length": 20}


def test_generation_config_beside_the_file(tmp_path: Path) -> None:
    path = model(tmp_path / "a.gguf")
    (tmp_path / "generation_config.json").write_text(json.dumps(GENERATION))
    made = of(path)
    assert made.sampling == Sampling(temperature=0.7, top_k=33, repeat_penalty=1.05)
    assert made.text("repeat_penalty") == "from generation_config.json"
    assert made.origins["top_p"] == "program"


@pytest.mark.parametrize(
    ("content", "temperature"),
    [
        ({"do_sample": False}, 0.0),
        ({"do_sample": False, "temperature": 0.3}, 0.3),
        ({"do_sample": True}, 0.8),
        ({"temperature": None}, 0.8),
        ({"temperature": True}, 0.8),
        ({"temperature": "0.3"}, 0.8),
    ],
)
def test_do_sample(tmp_path: Path, content: dict[str, Any], temperature: float) -> None:
    path = model(tmp_path / "a.gguf")
    (tmp_path / "generation_config.json").write_text(json.dumps(content))
    assert of(path).sampling.temperature == temperature


@pytest.mark.parametrize(
    "data",
    [b"[" * 60000, b"{", b"[]", b'{"temperature": NaN}', b'{"temperature": 1e400}', b"\xff\xfe",
     b'{"temperature": 0.3}' + b" " * 66000, b'{"top_k": -5e300}'],
)  # fmt: skip
def test_a_hostile_generation_config(tmp_path: Path, data: bytes) -> None:
    path = model(tmp_path / "a.gguf")
    (tmp_path / "generation_config.json").write_bytes(data)
    assert of(path).sampling.temperature == 0.8


def snapshot(root: Path, repo: str, name: str) -> Path:
    return root / f"models--{repo.replace('/', '--')}" / "snapshots" / "abc" / name


def test_a_snapshot_of_the_repository_and_of_its_base(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    base = [
        ("general.base_model.count", 1, I32),
        ("general.base_model.0.organization", "Some Org", STR),
        ("general.base_model.0.name", "Base Model", STR),
    ]
    path = model(snapshot(hub, "org/repo", "a.gguf"), *base)
    config = snapshot(hub, "Some-Org/Base-Model", "generation_config.json")
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"temperature": 0.11}))
    assert of(path).sampling.temperature == 0.11
    other = hub / "models--org--repo" / "snapshots" / "def" / "generation_config.json"
    other.parent.mkdir()
    other.write_text(json.dumps({"temperature": 0.12}))
    assert of(path).sampling.temperature == 0.12
    merged = model(tmp_path / "m.gguf", *[("general.base_model.count", 2, I32), *base[1:]])
    assert of(merged).sampling.temperature == 0.8


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://huggingface.co/Org/Base", ["Org/Base"]),
        ("https://huggingface.co/Org/Base/tree/main", ["Org/Base"]),
        ("https://example.com/Org/Base", []),
        ("https://huggingface.co/../..", []),
        ("http://[", []),
        ("", []),
    ],
)
def test_the_base_repository_by_its_address(tmp_path: Path, url: str, found: list[str]) -> None:
    path = model(tmp_path / "a.gguf", ("general.base_model.0.repo_url", url, STR))
    assert facts_of(path).base_repositories == found


def test_one_that_was_kept_at_the_fetch(tmp_path: Path) -> None:
    blob = "ab" * 32
    (tmp_path / "blobs").mkdir()
    path = model(tmp_path / "blobs" / blob)
    link = tmp_path / "snapshots" / "x" / "a.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(path)
    keep_generation_config(blob, json.dumps({"temperature": 0.44}).encode())
    assert of(link).sampling.temperature == 0.44
    for name, data in (("../../x", b"{}"), ("ab" * 32, b"x" * 70000)):
        with pytest.raises(ValueError, match="bytes"):
            keep_generation_config(name, data)


def ollama(root: Path, params: Any, system: str = "") -> Path:
    digest = "cd" * 32
    path = model(root / "blobs" / f"sha256-{digest}")
    kind = "application/vnd.ollama.image."
    layers = [{"mediaType": f"{kind}model", "digest": f"sha256:{digest}"}]
    for name, data in (("params", json.dumps(params)), ("system", system)):
        other = name.encode()[:1].hex() * 32
        (root / "blobs" / f"sha256-{other}").write_text(data)
        layers.append({"mediaType": kind + name, "digest": f"sha256:{other}"})
    manifest = root / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": layers}))
    return path


def test_ollamas_parameters(tmp_path: Path) -> None:
    params = {"stop": ["[INST]", 3], "temperature": 0.3, "repeat_last_n": 128, "num_ctx": 5}
    made = of(ollama(tmp_path, params, "Be brief."))
    assert made.sampling == Sampling(temperature=0.3, penalty_last_n=128)
    assert (made.text("temperature"), made.stop, made.system) == (
        "from Ollama",
        ("[INST]",),
        "Be brief.",
    )


@pytest.mark.parametrize("params", [[], 3, {"temperature": []}, "x" * 70000])
def test_parameters_that_are_none(tmp_path: Path, params: Any) -> None:
    assert of(ollama(tmp_path, params)).sampling == Sampling()


YAML = """
model: me/tiny
base:
  - key: Publisher/Tiny-GGUF
config:
  operation:
    fields:
      - key: llm.prediction.temperature
        value: 0.25
      - key: llm.prediction.topKSampling
        value: {checked: false, value: 7}
      - key: llm.prediction.minPSampling
        value: {checked: true, value: 0.2}
"""


def test_lm_studios_model_yaml(tmp_path: Path) -> None:
    root = tmp_path / ".lmstudio"
    path = model(root / "models" / "publisher" / "tiny-gguf" / "tiny.gguf")
    other = model(root / "models" / "publisher" / "other" / "tiny.gguf")
    file = root / "hub" / "models" / "me" / "tiny" / "model.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(YAML)
    made = of(path)
    assert made.sampling == Sampling(temperature=0.25, min_p=0.2)
    assert made.text("min_p") == "from LM Studio"
    assert of(other).sampling == Sampling()
    for bad in (
        "!!python/object/apply:os.system [id]",
        "a: &a [*a]\nconfig: *a",
        "config: [",
        "- 1",
    ):
        file.write_text(bad)
        assert of(path).sampling == Sampling()


def test_what_was_saved_for_the_model(tmp_path: Path, home: Path) -> None:
    path = model(tmp_path / "a.gguf", ("general.sampling.temp", 0.6, F32))
    place = home / "XDG_CONFIG_HOME" / "cutaway" / "preferences.json"
    place.parent.mkdir(parents=True)
    saved = {"temperature": 0.9, "seed": None, "top_k": "x"}
    place.write_text(json.dumps({"models": {"a.gguf": {"sampling": saved}}}))
    made = of(path)
    assert (made.sampling.temperature, made.origins["temperature"]) == (0.9, "saved")
    assert made.origins["top_k"] == "program"
    assert suggested(facts_of(path), with_saved=False).sampling.temperature == 0.6
    place.write_text('{"models": []}')
    assert of(path).sampling.temperature == 0.6
    place.unlink()
    os.mkfifo(place)  # whose writer is not waited for
    assert of(path).sampling.temperature == 0.6


def test_each_place_comes_before_the_next(tmp_path: Path, home: Path) -> None:
    """One value in all places; the first is taken away each time."""
    keys = [("general.basename", "SmolLM2", STR)]
    params = {"temperature": 0.3}
    root = tmp_path / "ollama"
    path = ollama(root, params)
    model(path, *keys, ("general.sampling.temp", 0.4, F32))
    config = path.parent / "generation_config.json"
    config.write_text(json.dumps({"temperature": 0.5}))
    place = home / "XDG_CONFIG_HOME" / "cutaway" / "preferences.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"models": {path.name: {"sampling": {"temperature": 0.6}}}}))

    def now() -> tuple[float, str]:
        made = of(path)
        return made.sampling.temperature, made.origins["temperature"]

    made = of(path).over({"temperature": 0.7, "top_k": None}, "yours")
    assert (made.sampling.temperature, made.origins["temperature"]) == (0.7, "yours")
    assert made.origins["top_p"] == "curated"
    assert now() == (0.6, "saved")
    place.unlink()
    assert now() == (0.4, "file")
    model(path, *keys)
    assert now() == (0.3, "ollama")
    for manifest in (root / "manifests").rglob("latest"):
        manifest.unlink()
    (path.parent / "model.yaml").write_text(YAML)
    assert now() == (0.25, "lm studio")
    (path.parent / "model.yaml").unlink()
    assert now() == (0.5, "generation_config")
    config.unlink()
    assert now() == (0.2, "curated")
    model(path)
    assert now() == (0.8, "program")


@pytest.mark.parametrize(
    ("architecture", "name", "thinking", "family"),
    [
        ("llama", "smollm2-360m-instruct", None, "SmolLM2"),
        ("gemma3", "gemma-3-4b-it", None, "Gemma 3"),
        ("llama", "gemma-3-4b-it", None, None),
        ("qwen3", "qwen3-4b", None, "Qwen3"),
        ("qwen3moe", "qwen3-coder-30b-a3b", None, None),
        ("qwen2", "deepseek-r1-distill-qwen-7b", None, "DeepSeek-R1"),
        ("llama", "meta-llama-3.1-8b-instruct", None, "Llama 3"),
        ("llama", "llama-3.3-70b-instruct", None, None),
        ("lfm2", "lfm2.5-1.2b", None, "LFM2.5"),
        ("llama", "mistral-nemo-instruct-2407", None, "Mistral Nemo"),
        ("granite", "granite-4", None, None),
    ],
)
def test_the_table(architecture: str, name: str, thinking: bool | None, family: str | None) -> None:
    entry = entry_for(architecture, name, thinking)
    assert (entry and entry.family) == family


def test_thinking_chooses_the_entry() -> None:
    values = [entry_for("qwen3", "qwen3-8b", way) for way in (None, True, False)]
    assert [entry.values["temperature"] for entry in values if entry] == [0.6, 0.6, 0.7]
    entry = entry_for("qwen3", "qwen3-4b-instruct-2507")
    assert entry is not None
    assert entry.values["temperature"] == 0.7


def test_every_entry_is_a_sampling() -> None:
    for entry in ENTRIES:
        Suggested().over(entry.values, "curated").sampling.check()
        assert set(entry.values) <= set(FIELDS)
        assert entry.source


def test_a_base_model_gets_no_entry() -> None:
    facts = ModelFacts(Path("smollm2-135m.gguf"), "llama", {}, "none")
    assert suggested(facts).family == ""
    assert suggested_questions("", "none") != suggested_questions("", "file")
    assert suggested_questions("SmolLM2", "file") != suggested_questions("", "file")


def test_one_line_for_a_terminal() -> None:
    made = Suggested(family="SmolLM2").over({"temperature": 0.2, "top_p": 0.9}, "curated")
    assert made.line == "0.2, top-p 0.9 (suggested for SmolLM2)"
    assert made.over({"temperature": 0.5}, "yours").line == (
        "0.5 (yours); top-p 0.9 (suggested for SmolLM2)"
    )
    assert Suggested().line == "0.8 (Cutaway's default)"
