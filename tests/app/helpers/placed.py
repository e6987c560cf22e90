"""An engine's answers about placements of a model that only exists here, by the engine's parser."""

from collections.abc import Collection, Sequence

from app.state.layers.layers import LayersState
from engine.errors import BadSetting
from engine.memory.placement import Placement, parse_pins
from engine.protocol import (
    BudgetRow,
    DeviceRow,
    Failed,
    MemoryRow,
    PlannedMemory,
    PoolRow,
    Reprice,
    Repriced,
    Speed,
    SplitRow,
    Tile,
)
from tests.app.helpers.scripted import ScriptedEngine

MIB = 1 << 20
DEVICES = ("intel:0", "pocl:0", "nvidia:0")


class PlacedModel:
    """`n_layer` layers of attention, feed-forward and cache, an output block, three devices whose
    `limits` are in MiB. Without a rule all is on the first device.
    """

    def __init__(
        self, n_layer: int = 30, limits: Sequence[int] = (15000, 15000, 60), experts: bool = False
    ) -> None:
        self.n_layer, self.experts = n_layer, experts
        self.limits = dict(zip((*DEVICES, "host"), (*limits, 15000), strict=True))
        self.asked: list[str] = []
        self.measured = True

    def sizes(self, layer: int) -> dict[str, int]:
        if layer == self.n_layer:
            return {"other": 28 * MIB}
        ffn = "experts" if self.experts else "feed_forward"
        return {"attention": MIB, ffn: 2 * MIB + layer, "cache": MIB // 2}

    def name(self, layer: int, part: str) -> str:
        """A weight's name in the file."""
        kinds = {"attention": "attn_q", "feed_forward": "ffn_up", "experts": "ffn_up_exps"}
        return f"blk.{layer}.{kinds[part]}.weight" if part in kinds else "output.weight"

    def pattern(self, layer: int, part: str) -> str:
        if part == "cache":
            return ""
        if part == "other":
            return "^output"
        word = "attn" if part == "attention" else "ffn"
        return rf"^blk\.{layer}\.{word}_"

    def placement(self, rule: str) -> Placement:
        """Raises BadSetting."""
        pins = parse_pins(rule)
        for device in pins.devices:
            if device not in self.limits:
                raise BadSetting("--device", device, f"one of {', '.join(self.limits)}")
        fixed = pins.of_layers(self.n_layer, DEVICES)
        layers = tuple(fixed.get(i, DEVICES[0]) for i in range(self.n_layer + 1))
        return Placement(layers, pins.patterns)

    def tiles(self, placed: Placement) -> list[Tile]:
        return [
            Tile(layer, device, part, size, 0, self.pattern(layer, part))  # type: ignore[arg-type]
            for layer in range(self.n_layer + 1)
            for part, size in self.sizes(layer).items()
            for device in (self.device_of(placed, layer, part),)
        ]

    def device_of(self, placed: Placement, layer: int, part: str) -> str:
        if part == "cache":
            return placed.layers[layer]
        return placed.device_of(self.name(layer, part), layer) or "host"

    def speed(self, splits: int) -> Speed | None:
        """Once the devices were measured."""
        spent = {"intel:0": 7_000_000 * splits}
        return Speed(143.0 / splits, 0, spent, 0, 0, "Measured here.") if self.measured else None

    def answer(self, request: Reprice) -> Repriced | Failed:
        """What an engine says."""
        self.asked.append(request.options.place)
        try:
            placed = self.placement(request.options.place)
        except BadSetting as error:
            return Failed(request.id, error.kind, str(error))
        tiles = self.tiles(placed)
        used = [d for d in self.limits if any(tile.device == d for tile in tiles)]
        beside = dict.fromkeys(used, 11 * MIB)
        wanted = {d: sum(tile.size for tile in tiles if tile.device == d) + beside[d] for d in used}
        budgets = [
            BudgetRow(d, wanted[d], self.limits[d] * MIB, max(0, wanted[d] - self.limits[d] * MIB))
            for d in used
        ]
        rows = [
            *(MemoryRow(t.device, "weights", t.layer, t.size, "planned") for t in tiles),
            *(MemoryRow(d, "graph", None, size, "planned") for d, size in beside.items()),
        ]
        pools = [
            PoolRow(d, [d], 2 * self.limits[d] * MIB, None, self.limits[d] * MIB, 0, "engine")
            for d in used
        ]
        over = {row.device: row.over for row in budgets if row.over}
        problem = "".join(
            f"{d}: no room for weights, {size} bytes short" for d, size in over.items()
        )
        memory = PlannedMemory(
            request.id, rows, pools, self.n_layer, not over, max(over.values(), default=0)
        )
        changes = 1 + sum(a != b for a, b in zip(placed.layers, placed.layers[1:], strict=False))
        automatic = not request.options.place
        return Repriced(
            request.id,
            n_layer=self.n_layer,
            layers=list(placed.layers),
            overrides=list(placed.overrides),
            reasons=[f"{DEVICES[0]} takes all layers"] if automatic else [],
            causes=["it has room for all" if automatic else "as set by the user"]
            * (self.n_layer + 1),
            labels=[
                *(["global"] if i % 6 == 5 else ["window 512"] for i in range(self.n_layer)),
                [],
            ],
            tiles=tiles,
            memory=memory,
            budgets=budgets,
            splits=[SplitRow("intel:0", 1, "a", "b", [])] * changes,
            crossing=2304 * (changes - 1),
            warnings=[],
            problem=problem,
            rule=",".join(f"{i}={d}" for i, d in enumerate(placed.layers[:-1])),
            llama_cpp="-ngl 99",
            speed=self.speed(changes),
        )


ROWS = [
    DeviceRow("intel:0", "Intel CPU", "Intel", "1", 24 << 30, 8, True),
    DeviceRow("pocl:0", "PoCL CPU", "PoCL", "1", 24 << 30, 8, False),
    DeviceRow("nvidia:0", "NVIDIA RTX", "NVIDIA", "1", 8 << 30, 40, True),
]


def reprice(engine: ScriptedEngine, model: PlacedModel) -> None:
    """Answer all questions about placements that nobody has answered yet."""
    for request in [r for r in engine.asked if isinstance(r, Reprice)]:
        if engine.waits_for(request.id):
            engine.say(model.answer(request))


def move_layers(state: LayersState, layers: Collection[int], device: str) -> None:
    """Whole layers to a device, as a hand does it."""
    tiles = [tile for lane in state.lanes() for tile in lane.tiles if tile.home]
    state.move_tiles([tile for tile in tiles if tile.layer in layers], device, ())
