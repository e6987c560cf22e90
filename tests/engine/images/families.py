"""Every family's plan with the numbers of its published models."""

from collections.abc import Callable

from engine.images.layouts import (
    gemma3,
    gemma4,
    hunyuan,
    idefics3,
    internvl,
    janus,
    kimi,
    lfm2,
    llama4,
    llava,
    llava_next,
    minicpmv,
    mllama,
    pixtral,
    qwen,
)
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.tiles import enlarged, enlarged_by_sides

Plan = Callable[[Size, Limits], ImagePlan]

CANVASES = [Size(w, h) for h, w in ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))]
FAMILIES: dict[str, Plan] = {
    "gemma3": lambda size, limits: gemma3(size, limits, edge=896, tokens=256),
    "pixtral-12b": lambda size, limits: pixtral(size, limits, longest=1024, cell=16),
    "mistral3": lambda size, limits: pixtral(size, limits, longest=1540, cell=28),
    "lighton-ocr": lambda size, limits: pixtral(
        size, limits, longest=1540, cell=28, line_end="", end=""
    ),
    "janus-pro": lambda size, limits: janus(
        size, limits, edge=384, patch=16, before="<begin>", after="<end>"
    ),
    "qwen2.5-vl": lambda size, limits: qwen(size, limits, cell=28, least=3136, most=12845056),
    "glm-4.1v": lambda size, limits: qwen(
        size, limits, cell=28, least=6272, most=4816896, enlarge=enlarged
    ),
    "paddleocr-vl": lambda size, limits: qwen(
        size, limits, cell=28, least=147384, most=2822400, enlarge=enlarged_by_sides
    ),
    "hunyuan-ocr": lambda size, limits: hunyuan(
        size, limits, cell=32, least=262144, most=4194304, before="<begin>", after="<end>"
    ),
    "qwen3-vl": lambda size, limits: qwen(size, limits, cell=32, least=65536, most=16777216),
    "mllama": lambda size, limits: mllama(size, limits, edge=560, most=4, patch=14),
    "llama4": lambda size, limits: llama4(size, limits, edge=336, most=16, cell=28),
    "smolvlm": lambda size, limits: idefics3(size, limits, edge=512, longest=2048, cell=64),
    "idefics3-8b": lambda size, limits: idefics3(size, limits, edge=364, longest=1456, cell=28),
    "smolvlm-2.2b": lambda size, limits: idefics3(size, limits, edge=384, longest=1536, cell=42),
    "llava-1.5": lambda size, limits: llava(size, limits, edge=336, patch=14),
    "llava-1.6": lambda size, limits: llava_next(
        size, limits, edge=336, patch=14, canvases=CANVASES
    ),
    "internvl": lambda size, limits: internvl(size, limits, edge=448, most=12, cell=28),
    "lfm2-vl": lambda size, limits: lfm2(size, limits, patch=16, cell=32, least=65536, most=262144),
    "kimi-vl": lambda size, limits: kimi(size, limits, patch=14, merge=2, most=4096, longest=512),
    "minicpm-v": lambda size, limits: minicpmv(
        size, limits, edge=448, unit=14, queries=64, is_counted=True
    ),
    "minicpm-v-4.6": lambda size, limits: minicpmv(
        size, limits, edge=448, unit=56, is_counted=True
    ),
    "gemma4": lambda size, limits: gemma4(size, limits, cell=48, tokens=280, causal=False),
    "gemma4-70": lambda size, limits: gemma4(size, limits, cell=48, tokens=70, causal=True),
    "gemma4-1120": lambda size, limits: gemma4(size, limits, cell=48, tokens=1120, causal=True),
}
