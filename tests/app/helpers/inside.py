"""What an engine would tell of how a word came to be: made up, but of the right shape."""

import re
from typing import Any

import numpy as np

from engine.protocol import (
    Alternative,
    Attended,
    ChatMessage,
    ChoiceStep,
    ContextItems,
    Examine,
    Examined,
    HostRecord,
    LaunchRecord,
    Lens,
    SplitRecord,
    StepRecord,
    TokenChoice,
)
from tests.app.helpers.scripted import ScriptedEngine

TOKEN = re.compile(r"<\|\w+\|>|\n| ?[^\s<]+| ")
LAYERS, HEADS = 30, 9
WORDS = ("cat", "dog", "mat", "house", "tree", "sat", "on", "the", "a", "of")


def rendered(messages: list[ChatMessage]) -> str:
    """As ChatML has it, up to where an answer begins."""
    said = "".join(f"<|im_start|>{m.role}\n{m.text}<|im_end|>\n" for m in messages)
    return f"{said}<|im_start|>assistant\n"


def items(request: Examine) -> ContextItems:
    """The prompt in words, then the ids of `prefix_tokens`, which part the prefix evenly."""
    text = rendered(request.messages)
    pieces = TOKEN.findall(text)
    ids = [sum(map(ord, piece)) % 40000 for piece in pieces]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    count = len(request.prefix_tokens)
    cuts = [len(request.prefix) * (n + 1) // count for n in range(count)]
    return ContextItems(
        text + request.prefix,
        _ints([*ids, *request.prefix_tokens]),
        _ints([*ends, *(len(text) + cut for cut in cuts)]),
        [],
    )


def examined(
    request: Examine,
    layers: int = LAYERS,
    heads: int = HEADS,
    wanted: str = " Paris",
    other: str = "pocl:0",
) -> Examined:
    """The reply to a request, with all that it asks for; the last third ran on `other`."""
    context = items(request)
    places = request.at if request.at is not None else len(context.ids) // 4
    asked = request.attention_layers
    return Examined(
        request.id,
        context,
        places,
        0,
        lens(request.wanted or 7, wanted, layers) if request.lens else None,
        attended(places, asked, layers, heads) if asked is not None else None,
        choice(request.wanted or 7, wanted) if request.sampling is not None else None,
        step(layers, ("intel:0", other)) if request.record else None,
    )


def lens(wanted: int, text: str, layers: int = LAYERS, k: int = 8) -> Lens:
    """The word climbs from rank 4000 and leads from two thirds of the way on."""
    leads = layers * 2 // 3
    ranks = [max(2, round(4000 ** (1 - n / leads))) if n < leads else 1 for n in range(layers + 1)]
    chances = [
        1 / (rank + 1.5) if rank > 1 else 0.3 + 0.6 * n / layers for n, rank in enumerate(ranks)
    ]
    others = list(range(100, 100 + len(WORDS)))
    ids = np.array([(others * 2)[n % 7 : n % 7 + k] for n in range(layers + 1)], "<i4")
    shares = np.array([[0.22 * 0.6**n for n in range(k)] for _ in range(layers + 1)], "<f4")
    for row, rank in enumerate(ranks):
        if rank <= k:
            ids[row, rank - 1], shares[row, rank - 1] = wanted, chances[row]
        if rank == 1:
            shares[row, 1:] *= (1 - chances[row]) / 1.2
    texts = {wanted: text} | {n: f" {word}" for n, word in zip(others, WORDS, strict=True)}
    entropy = np.linspace(7.2, 1.1, layers + 1, dtype="<f4")
    logs = np.log(np.array(chances, "<f4"))
    return Lens(
        [*range(layers + 1)],
        ids.tobytes(),
        np.log(shares).astype("<f4").tobytes(),
        wanted,
        _ints(ranks),
        logs.astype("<f4").tobytes(),
        entropy.tobytes(),
        texts,
    )


def rows(places: int, layers: int = LAYERS, heads: int = HEADS) -> np.ndarray:
    """Full attention f32 [layers, heads, places]: half at the first place, a peak elsewhere."""
    random = np.random.default_rng(places)
    full = random.random((layers, heads, places)) ** 6 + 1e-4
    peaks = random.integers(0, places, (layers, heads, 1))
    full += 3 * (np.arange(places) == peaks)
    full /= full.sum(-1, keepdims=True) * 2
    full[..., 0] += 0.5
    return full.astype("<f4")


def attended(places: int, asked: list[int], layers: int = LAYERS, heads: int = HEADS) -> Attended:
    """What `rows` come to."""
    full = rows(places, layers, heads)
    entropy = -(full * np.log(full)).sum(-1)
    distance = (full * (places - 1 - np.arange(places))).sum(-1)
    return Attended(
        [*range(layers)],
        heads,
        places,
        entropy.astype("<f4").tobytes(),
        distance.astype("<f4").tobytes(),
        full[..., 0].astype("<f4").tobytes(),
        full.mean((0, 1)).astype("<f4").tobytes(),
        {layer: full[layer].tobytes() for layer in asked},
    )


def choice(wanted: int, text: str) -> TokenChoice:
    """Of three that are likely, and the others that sampling removes."""
    shares = [0.62, 0.2, 0.08, 0.04, 0.01]
    texts = [text, " Lyon", " the", " Rome", " a"]
    top = [
        Alternative(wanted + n, said, float(np.log(share)))
        for n, (said, share) in enumerate(zip(texts, shares, strict=True))
    ]
    return TokenChoice(
        top,
        [
            ChoiceStep("model", 49152, 0.0, 1.31, shares),
            ChoiceStep("penalties", 49152, 0.0, 1.31, shares),
            ChoiceStep("top_k", 40, 0.021, 1.22, [s / 0.979 for s in shares]),
            ChoiceStep("top_p", 5, 0.04, 0.98, [s / 0.95 for s in shares]),
            ChoiceStep("min_p", 4, 0.01, 0.9, [*(s / 0.94 for s in shares[:4]), 0.0]),
            ChoiceStep("temperature", 4, 0.0, 0.74, [0.74, 0.18, 0.05, 0.03, 0.0]),
        ],
    )


def step(layers: int = LAYERS, devices: tuple[str, ...] = ("intel:0", "pocl:0")) -> StepRecord:
    """Launches one behind the other, the last third of the layers on the second device."""
    names = ("attn_norm", "Qcur", "kqv_out", "ffn_norm", "ffn_up", "ffn_out")
    launches, at = [], 210_000
    for layer in range(layers):
        device = devices[min(layer * 3 // (2 * layers), len(devices) - 1)]
        for name in names:
            took = 9_000 if "norm" in name else 38_000
            launches.append(
                LaunchRecord(0, device, f"k_{name}", "MUL_MAT", f"{name}-{layer}", at, at + took,
                             1 << 20, 1 << 20)
            )  # fmt: skip
            at += took + 3_000
    launches.append(
        LaunchRecord(1, devices[-1], "matmul", "MUL_MAT", "result_output", at, at + 600_000,
                     28 << 20, 56 << 20)
    )  # fmt: skip
    end = at + 600_000
    host = [HostRecord("inputs", 0, 150_000), HostRecord("launch", 150_000, 210_000)]
    split = SplitRecord(devices[0], 6 * layers, "inp_embd", "result_output", 0, 0, 0, end)
    return StepRecord(end + 420_000, launches, host, [split])


def answer(engine: ScriptedEngine, **shape: Any) -> Examine:
    """Answer the latest question about a word; what it was."""
    request = engine.last_of(Examine)
    assert isinstance(request, Examine)
    engine.say(examined(request, **shape))
    return request


def _ints(values: list[int]) -> bytes:
    return np.array(values, "<i4").tobytes()
