"""The engine's shared options."""

import pytest

from app.cli import Parser
from app.state.preferences import ModelPreferences
from app.terminal.options import add_engine_options, engine_options
from engine.errors import BadSetting
from engine.settings import KEPT, KV_TYPES, OPTIONS, EngineOptions


def parse(*words: str) -> EngineOptions:
    parser = Parser(prog="x")
    add_engine_options(parser)
    return engine_options(parser.parse_args(words))


def test_defaults_leave_the_choice_to_the_engine() -> None:
    assert parse() == EngineOptions()


def test_all() -> None:
    words = "--device intel:0 --ctx 4096 --kv f16 --flash-attn off --threads 2"
    options = parse(*words.split(), "--budget", "intel:0=100", "--budget=host=0")
    assert options == EngineOptions(
        "intel:0", 4096, "f16", False, 2, {"intel:0": 100 << 20, "host": 0}
    )
    placed = parse("--place", "0-3=intel:0,out=host", "--gpu-layers", "5")
    assert placed == EngineOptions(place="0-3=intel:0,out=host", gpu_layers=5)
    assert parse("--flash-attn", "on").flash_attention is True
    assert parse("--flash-attn", "auto").flash_attention is None


@pytest.mark.parametrize("kv", KV_TYPES)
def test_cache_types(kv: str) -> None:
    assert parse("--kv", kv) == EngineOptions(kv=kv)


@pytest.mark.parametrize("kv", ["q5_0", "Q8_0", "bf16", ""])
def test_other_cache_types_are_refused(kv: str) -> None:
    with pytest.raises(BadSetting, match="--kv: .*expected one of f16, q8_0, q4_0, f32"):
        parse("--kv", kv)


def test_bits_of_activations() -> None:
    assert parse("--activations", "8") == EngineOptions(activations=8)
    for text in ("4", "16", "f16", ""):
        with pytest.raises(BadSetting, match="--activations: .*expected one of 12, 8"):
            parse("--activations", text)


@pytest.mark.parametrize("budget", ["100", "intel:0=", "intel:0=1.5", "=5", "intel:0=-1"])
def test_wrong_budgets(budget: str) -> None:
    with pytest.raises(BadSetting, match="DEVICE=MiB"):
        parse("--budget", budget)


@pytest.mark.parametrize("words", ["--ctx 0", "--ctx x", "--threads -1", "--flash-attn maybe"])
def test_wrong_values(words: str) -> None:
    with pytest.raises(BadSetting, match=f"{words.split()[0]}: .*expected "):
        parse(*words.split())


def test_every_option_is_an_argument_with_help() -> None:
    parser = Parser(prog="x")
    add_engine_options(parser)
    shown = " ".join(parser.format_help().split())
    for option in OPTIONS.values():
        assert f"--{option.flag} {option.metavar}" in shown
        assert option.help in shown


def test_what_is_kept_for_a_model_is_a_preference_with_the_same_default() -> None:
    for name in KEPT:
        assert getattr(ModelPreferences(), name) == getattr(EngineOptions(), name)
