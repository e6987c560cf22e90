"""Graphs as an engine tells them, of any number of layers."""

from collections import Counter
from collections.abc import Callable, Sequence

from engine.protocol import (
    ArenaLife,
    ArenaMap,
    CopyNode,
    GraphDone,
    GraphNode,
    LaunchNode,
    SplitNode,
)

# Name, operation, sources (by name, the layer's own or those before), shape's first dimension.
LAYER: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("attn_norm", "rms_norm", ("l_in",), 64),
    ("Qcur", "matmul", ("attn_norm",), 64),
    ("Kcur", "matmul", ("attn_norm",), 32),
    ("Vcur", "matmul", ("attn_norm",), 32),
    ("Q (reshaped)", "reshape", ("Qcur",), 16),
    ("Qrope", "rope", ("Q (reshaped)",), 16),
    ("Krope", "rope", ("Kcur",), 16),
    ("mixed", "attention", ("Qrope", "Krope", "Vcur"), 16),
    ("kqv_out", "reshape", ("mixed",), 64),
    ("attn_out", "matmul", ("kqv_out",), 64),
    ("ffn_inp", "add", ("attn_out", "l_in"), 64),
    ("ffn_norm", "rms_norm", ("ffn_inp",), 64),
    ("ffn_gate", "matmul", ("ffn_norm",), 96),
    ("ffn_up", "matmul", ("ffn_norm",), 96),
    ("ffn_swiglu", "silu", ("ffn_gate", "ffn_up"), 96),
    ("ffn_out", "matmul", ("ffn_swiglu",), 64),
    ("l_out", "add", ("ffn_out", "ffn_inp"), 64),
)
TOGETHER = (("Qcur", "Kcur", "Vcur"), ("ffn_gate", "ffn_up", "ffn_swiglu"), ("ffn_out", "l_out"))
PER_LAYER = len(LAYER)


def graph_done(
    layers: int = 4,
    device_of: Callable[[int], str] = lambda layer: "intel:0",
    n_tokens: int = 1,
    id: int = 0,
    pinned: tuple[str, str] | None = None,
    attention: str = "attention_vectors.attention",
) -> GraphDone:
    """Blocks of LAYER between an input and an output; `pinned` is a node's name and its device."""
    maker = _Maker(layers, n_tokens, pinned, attention)
    maker.add("embd", "rows", (), 64, None, device_of(0))
    before = "embd"
    for layer in range(layers):
        for name, op, sources, size in LAYER:
            read = [before if s == "l_in" else f"{s}-{layer}" for s in sources]
            maker.add(f"{name}-{layer}", op, read, size, layer, device_of(layer))
        before = f"l_out-{layer}"
    maker.add("result_norm", "rms_norm", [before], 64, layers, device_of(layers - 1))
    maker.add("result_output", "matmul", ["result_norm"], 320, layers, device_of(layers - 1))
    return maker.done(id)


class _Maker:
    def __init__(
        self, layers: int, n_tokens: int, pinned: tuple[str, str] | None, attention: str
    ) -> None:
        self.layers, self.n_tokens, self.pinned = layers, n_tokens, pinned
        self.attention = attention
        self.rows: list[tuple[str, str, Sequence[str], int, int | None, str]] = []

    def add(
        self, name: str, op: str, sources: Sequence[str], size: int, layer: int | None, device: str
    ) -> None:
        if self.pinned is not None and self.pinned[0] == name:
            device = self.pinned[1]
        self.rows.append((name, op, sources, size, layer, device))

    def done(self, id: int) -> GraphDone:
        place = {row[0]: i for i, row in enumerate(self.rows)}
        split_of, splits = self._splits(place)
        launch_of, launches = self._launches(place, split_of)
        nodes, seen = [], Counter[str]()
        lives: dict[str, list[ArenaLife]] = {}
        for i, (name, op, sources, size, layer, device) in enumerate(self.rows):
            is_view = op == "reshape"
            mine = lives.setdefault(device, [])
            if not is_view:
                mine.append(ArenaLife(name, i, 0, 256 * (len(mine) % 8), 256, i, i + 1))
            nodes.append(
                GraphNode(
                    name=name, occurrence=seen[name], op=op, dtype="F32",
                    dims=[size, self.n_tokens] if self.n_tokens > 1 else [size],
                    size=4 * size * self.n_tokens, role="view" if is_view else "", layer=layer,
                    device=device, cause="1.wgt0" if (name, device) != self.pinned else "usr",
                    why=f"its weight blk.{layer}.{name} lies on {device}: as asked",
                    sources=[place[s] for s in sources], split=-1 if is_view else split_of[i],
                    launch=-1 if is_view else launch_of[i],
                    life=-1 if is_view else len(mine) - 1,
                )
            )  # fmt: skip
            seen[name] += 1
        weight = GraphNode(
            "blk.0.attn_q.weight", 0, "none", "Q4_1", [64, 64], 2560, "weight", 0,
            "intel:0", "1.dst", "lies on intel:0: as asked", [], -1, -1, -1,
        )  # fmt: skip
        arenas = [ArenaMap(d, [4096], 0, mine) for d, mine in lives.items()]
        return GraphDone(
            id, self.n_tokens, self.n_tokens, self.layers, [*nodes, weight], splits, launches,
            arenas, len(nodes) + 1,
        )  # fmt: skip

    def _splits(self, place: dict[str, int]) -> tuple[dict[int, int], list[SplitNode]]:
        of: dict[int, int] = {}
        runs: list[list[int]] = []
        for i, row in enumerate(self.rows):
            if row[1] == "reshape":
                continue
            if not runs or self.rows[runs[-1][-1]][5] != row[5]:
                runs.append([])
            runs[-1].append(i)
            of[i] = len(runs) - 1
        splits = []
        for number, run in enumerate(runs):
            copies = []
            for i in run:
                for source in (place[s] for s in self.rows[i][2]):
                    origin, device = self.rows[source][5], self.rows[i][5]
                    name = f"{device}#{self.rows[source][0]}"
                    if origin != device and name not in [copy.name for copy in copies]:
                        copies.append(CopyNode(name, source, origin, 256, of.get(source, -1), i))
            first, last = self.rows[run[0]], self.rows[run[-1]]
            why = "start of the step" if not number else f"{first[0]} runs there: as asked"
            splits.append(SplitNode(first[5], len(run), first[0], last[0], why, copies))
        return of, splits

    def _launches(
        self, place: dict[str, int], split_of: dict[int, int]
    ) -> tuple[dict[int, int], list[LaunchNode]]:
        of: dict[int, int] = {}
        launches: list[LaunchNode] = []
        groups: dict[tuple[object, ...], int] = {}
        for i, (name, op, sources, size, layer, device) in enumerate(self.rows):
            if op == "reshape":
                continue
            plain = name.rpartition("-")[0]
            group = next((g for g in TOGETHER if plain in g), None)
            key = (layer, group or name, device)
            read = {of[s] for s in self._through_views(place, sources) if s in of}
            if key in groups:
                at = groups[key]
                old = launches[at]
                launches[at] = LaunchNode(
                    old.split, old.device, old.op, old.name, old.kernels, old.defines,
                    [*old.nodes, i], sorted({*old.sources, *read} - {at}), old.bytes + 4 * size,
                    old.flops + 2 * size, old.step,
                )  # fmt: skip
            else:
                at = groups[key] = len(launches)
                kernel = self.attention if op == "attention" else f"{KERNELS.get(op, op)}"
                launches.append(
                    LaunchNode(
                        split_of[i], device, op, name, [kernel], ["W=16 LOCAL=1"], [i],
                        sorted(read), 4 * size, 2 * size, i,
                    )
                )  # fmt: skip
            of[i] = at
        return of, launches

    def _through_views(self, place: dict[str, int], names: Sequence[str]) -> list[int]:
        found = []
        for name in names:
            row = self.rows[place[name]]
            found += self._through_views(place, row[2]) if row[1] == "reshape" else [place[name]]
        return found


KERNELS = {
    "matmul": "matmul_tiled.matmul",
    "rms_norm": "norm.norm",
    "add": "arithmetic.binary",
    "rope": "rope.rope",
    "rows": "rows.rows",
    "silu": "activation.activation",
}
