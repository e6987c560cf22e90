"""What an engine tells of comparisons: with the host, for graphs of `graph_done`, and of texts."""

from collections.abc import Sequence

import numpy as np

from engine.protocol import Compared, ComparedResult, PairedResult, TextsCompared, TokenPair
from engine.protocol.inside.compare import Phase

RESULTS = ("attn_norm", "Qcur", "Krope", "attn_out", "ffn_norm", "ffn_swiglu", "l_out")
LAUNCHES = {"attn_norm": "rms_norm", "ffn_norm": "rms_norm", "Krope": "rope", "l_out": "add"}


def result(
    name: str, phase: Phase = "decode", error: float = 1e-9, problem: str = "", occurrence: int = 0
) -> ComparedResult:
    plain, _, layer = name.rpartition("-")
    launch = LAUNCHES.get(plain, "matmul")
    number = int(layer) if plain else None
    device = "intel:0" if number is None or number < 8 else "nvidia:0"
    return ComparedResult(
        phase, name, occurrence, number, device, [launch], [launch], error, 1e-5, problem
    )


def compared(
    layers: int = 4, wrong: Sequence[str] = (), id: int = 0, grow: float = 1.0
) -> Compared:
    """RESULTS of each layer, for both steps; errors grow, and the `wrong` deviate where one token
    is computed.
    """
    rows = []
    for phase in ("prefill", "decode"):
        for layer in range(layers):
            for place, plain in enumerate(RESULTS):
                name, error = f"{plain}-{layer}", 1e-11 * grow ** (layer + place)
                bad = name in wrong and phase == "decode"
                problem = "NMSE 3.0e-01, at most 1e-05" if bad else ""
                rows.append(result(name, phase, 0.3 if bad else error, problem))
    first = next((i for i, row in enumerate(rows) if row.problem), None)
    return Compared(id, rows, first, 32)


PAIRS = [
    *(TokenPair(0, 0, "a", "a"), TokenPair(1, 1, " red", " blue")),
    TokenPair(3, 2, " hat", " hat"),
]


def paired(name: str, layer: int | None, *errors: float, first: int = 0) -> PairedResult:
    """A result of pairs; without errors one whose rows have other lengths."""
    values = np.array(errors, "<f4")
    whole = (float(values.mean()), 1 - float(values.mean())) if errors else (None, None)
    return PairedResult(
        name, 0, layer, "intel:0", first, *whole, values.tobytes(), (1 - values).tobytes()
    )


def texts_compared(id: int, layers: int = 1) -> TextsCompared:
    """Two texts of PAIRS, which differ from the second pair on."""
    rows = [
        paired("embd", None, 0, 0.5, 0),
        *(paired(f"l_out-{n}", n, 0, 0.4 / (n + 1), 0.2) for n in range(layers)),
        paired("kq-0", 0),
        paired("result_output", None, 0.1, first=2),
    ]
    return TextsCompared(id, rows, 0, PAIRS)
