"""What a person writes for --place, and where a weight lies then."""

import pytest

from engine.errors import BadSetting
from engine.memory.placement import Pins, Placement, parse_pins, spell


def test_layers_output_and_patterns() -> None:
    pins = parse_pins(r"0-2=intel:0, 5=pocl:0,out=host,blk\.\d+\.ffn_.*=host")
    assert pins.layers == {0: "intel:0", 1: "intel:0", 2: "intel:0", 5: "pocl:0"}
    assert pins.output == "host"
    assert pins.patterns == ((r"blk\.\d+\.ffn_.*", "host"),)
    assert pins.devices == ["intel:0", "pocl:0", "host"]
    assert pins.of_layers(6, []) == {**pins.layers, 6: "host"}
    assert parse_pins("") == Pins()


def test_the_later_part_counts() -> None:
    assert parse_pins("0-3=a:0,2=b:0").layers == {0: "a:0", 1: "a:0", 2: "b:0", 3: "a:0"}


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("2-=b:0", "--bb"),
        ("0-1=a:0, 2-=b:0", "aabb"),
        ("2-=b:0,3=a:0", "--ba"),
        ("3=a:0,2-=b:0", "--bb"),
        ("1-=a:0,3-=b:0", "-aab"),
        ("3-=b:0,1-=a:0", "-aaa"),
        ("1,1,2-=c:0", "aacc"),
    ],
)
def test_a_range_without_an_end_goes_to_the_last_layer(text: str, placed: str) -> None:
    """The output block is none of them."""
    wanted = {i: f"{name}:0" for i, name in enumerate(placed) if name != "-"}
    found = parse_pins(text).of_layers(4, ["a:0", "b:0"])
    assert {i: device for i, device in found.items() if i < 4} == wanted
    assert found.get(4) == ("b:0" if text.startswith("1,1") else None)


def test_a_range_without_an_end_names_its_device() -> None:
    pins = parse_pins("2-=CPU,0-1=host")
    assert set(pins.devices) == {"host", "CPU"}
    assert pins.spelled(str.lower).of_layers(3, []) == {0: "host", 1: "host", 2: "cpu"}
    with pytest.raises(BadSetting, match="layers 0 to 1, and out"):
        pins.of_layers(2, [])


def test_patterns_may_hold_commas_and_equals_signs() -> None:
    pins = parse_pins(r"blk\.\d{1,2}\.ffn=CPU,a=b=c:0,1=d:0")
    assert pins.patterns == ((r"blk\.\d{1,2}\.ffn", "CPU"), ("a=b", "c:0"))
    assert pins.layers == {1: "d:0"}


@pytest.mark.parametrize("text", ["3,1", "3/1", "0.75,0.25", "3, 1"])
def test_shares_are_split_as_llama_cpp_does(text: str) -> None:
    """Layer i of n + 1 goes to the first device whose share ends behind i / (n + 1)."""
    placed = parse_pins(text).of_layers(7, ["a:0", "b:0", "c:0"])
    assert placed == dict.fromkeys(range(6), "a:0") | dict.fromkeys((6, 7), "b:0")


def test_shares_beside_parts() -> None:
    placed = parse_pins("1,1,out=host,0=c:0").of_layers(3, ["a:0", "b:0"])
    assert placed == {0: "c:0", 1: "a:0", 2: "b:0", 3: "host"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0-11", "0-11"),
        ("0=", "0="),
        ("=a:0", "=a:0"),
        ("12345-=a:0", "4 digits"),
        ("3-1=a:0", "lower to the higher"),
        ("[=a:0", "regular expression"),
        ("0=a:0,3,1", "3"),
        ("0=a:0,,1=a:0", "LAYERS=DEVICE"),
        ("9" * 5000 + "=host", "4 digits"),
        ("0-" + "9" * 5000 + "=host", "4 digits"),
        ("a{99999999999999999999}=host", "regular expression"),
    ],
)
def test_what_cannot_be_understood(text: str, names: str) -> None:
    with pytest.raises(BadSetting, match="--place") as error:
        parse_pins(text)
    assert names in str(error.value)


@pytest.mark.parametrize("shares", ["9" * 400, "9" * 400 + ",1", "9" * 308 + "," + "9" * 308])
def test_shares_beyond_all_numbers(shares: str) -> None:
    with pytest.raises(BadSetting, match="--place"):
        parse_pins(shares).of_layers(3, ["a:0", "b:0"])


def test_a_device_with_a_number_beyond_all() -> None:
    assert spell("CUDA" + "9" * 5000, ["a:0"], None) == "CUDA" + "9" * 5000  # no device's name
    with pytest.raises(BadSetting, match="--place"):
        spell("CUDA9999", ["a:0"], None)


def test_what_does_not_suit_the_model() -> None:
    with pytest.raises(BadSetting, match="layers 0 to 29, and out"):
        parse_pins("30=a:0").of_layers(30, ["a:0"])
    for shares in ("1,1,1", "0,0"):
        with pytest.raises(BadSetting, match="a share for each of a:0, b:0"):
            parse_pins(shares).of_layers(30, ["a:0", "b:0"])


def test_names_of_llama_cpp() -> None:
    def of(name: str) -> str:
        return spell(name, ["nvidia:0", "nvidia:1"], "intel:0")

    assert [of(n) for n in ("CPU", "CUDA0", "CUDA1", "Vulkan1", "GPUOpenCL")] == [
        "intel:0",
        "nvidia:0",
        "nvidia:1",
        "nvidia:1",
        "nvidia:0",
    ]
    assert [of(n) for n in ("host", "pocl:0")] == ["host", "pocl:0"]
    with pytest.raises(BadSetting, match="CUDA2"):
        of("CUDA2")
    with pytest.raises(BadSetting, match="CPU"):
        spell("CPU", [], None)


def test_where_a_weight_lies() -> None:
    placement = Placement(("a:0", "b:0", "a:0"), (("ffn", "c:0"), ("ffn_up", "d:0")))
    assert placement.device_of("blk.1.attn_q.weight", 1) == "b:0"
    assert placement.device_of("blk.1.ffn_up.weight", 1) == "c:0"  # the first pattern counts
    assert placement.device_of("output.weight", 2) == "a:0"
    assert placement.device_of("token_embd.weight", None) is None  # never moved
