"""Models worth beginning with, from 0.3B to 35B with experts; data only.

Sizes are rounded, for a first look without the network; the Hub gives the exact ones, and whether a
model fits is planned from its header.
"""

from dataclasses import dataclass

from app.fetch.known import SMOLLM2
from app.language import mark
from engine.units import GB


@dataclass(frozen=True)
class Recommended:
    """A model and the reason for it, in one sentence. `name` is a repository's with its quant, or
    one of `app.fetch.known`. `parameters` are all, `active` those that one
    token uses; `size` is in bytes, with its projector where it reads pictures.
    """

    title: str
    name: str
    parameters: float
    size: int
    licence: str
    reason: str
    active: float | None = None
    images: bool = False


def _gb(size: float) -> int:
    return round(size * GB)


SHELF = (
    Recommended(
        "SmolLM2 135M",
        SMOLLM2.name,
        0.135e9,
        SMOLLM2.download_size,
        SMOLLM2.licence,
        mark("It is the smallest one here, for a first try, and needs no Hugging Face."),
    ),
    Recommended(
        "Gemma 3 270M",
        "ggml-org/gemma-3-270m-it-GGUF:Q8_0",
        0.27e9,
        _gb(0.29),
        "gemma",
        mark("It answers at once on any machine and is good for short rewrites and labels."),
    ),
    Recommended(
        "Qwen3.5 0.8B",
        "unsloth/Qwen3.5-0.8B-GGUF:Q8_0",
        0.8e9,
        _gb(1.04),
        "apache-2.0",
        mark("It is the smallest one here that reads pictures."),
        images=True,
    ),
    Recommended(
        "Gemma 3 1B",
        "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M",
        1.0e9,
        _gb(0.81),
        "gemma",
        mark("It holds a plain conversation in many languages in less than 1 GB."),
    ),
    Recommended(
        "Qwen3.5 2B",
        "unsloth/Qwen3.5-2B-GGUF:Q4_K_M",
        1.9e9,
        _gb(1.95),
        "apache-2.0",
        mark("It reasons and calls tools on a laptop without a graphics card."),
        images=True,
    ),
    Recommended(
        "SmolLM3 3B",
        "ggml-org/SmolLM3-3B-GGUF:Q4_K_M",
        3.1e9,
        _gb(1.92),
        "apache-2.0",
        mark("Its training data and recipe are open, so its answers can be traced."),
    ),
    Recommended(
        "Qwen3.5 4B",
        "unsloth/Qwen3.5-4B-GGUF:Q4_K_M",
        4.2e9,
        _gb(3.41),
        "apache-2.0",
        mark("It gives the best answers of its size, reads pictures and takes long documents."),
        images=True,
    ),
    Recommended(
        "Gemma 4 E4B",
        "unsloth/gemma-4-E4B-it-GGUF:Q4_K_M",
        8.0e9,
        _gb(5.97),
        "apache-2.0",
        mark("It reads pictures and writes well in over a hundred languages."),
        images=True,
    ),
    Recommended(
        "Qwen3.5 9B",
        "unsloth/Qwen3.5-9B-GGUF:Q4_K_M",
        9.0e9,
        _gb(6.6),
        "apache-2.0",
        mark("It is a good everyday model where 8 GB of memory are free."),
        images=True,
    ),
    Recommended(
        "gpt-oss 20B",
        "unsloth/gpt-oss-20b-GGUF:Q4_K_M",
        20.9e9,
        _gb(11.6),
        "apache-2.0",
        mark(
            "It uses 3.6 of its 21 billion parameters for each token, so it is fast for its"
            " knowledge."
        ),
        active=3.6e9,
    ),
    Recommended(
        "Qwen3.6 35B A3B",
        "unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_M",
        35.0e9,
        _gb(23.0),
        "apache-2.0",
        mark(
            "It has the most knowledge in this list and uses only 3 billion parameters for each"
            " token."
        ),
        active=3.0e9,
        images=True,
    ),
)
