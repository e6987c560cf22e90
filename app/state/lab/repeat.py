"""Commands that repeat a run of the laboratory in a terminal."""

import shlex

import msgspec

from app.state.lab.runs import as_prompt
from engine.protocol import FindFeatures, MapPatches, MeasureQuality, RecordDataset


def command_of_map(request: MapPatches, model: str) -> str:
    """Repeat a patching map."""
    chat = request.clean.prompt is None
    clean, corrupt = as_prompt(request.clean), as_prompt(request.corrupt)
    words = ["cutaway", "patch", model, "--clean", clean]
    words += _noise(request) if request.noise else ["--corrupt", corrupt]
    for name, text in (("--right", request.right), ("--wrong", request.wrong)):
        words += [name, str(text)] if text != "" else []
    before = [{"role": one.role, "content": one.text} for one in request.clean.messages[:-1]]
    words += ["--before", msgspec.json.encode(before).decode()] if before else []
    words += ["--answer", request.clean.prefix] if request.clean.prefix else []
    words += ["--grid", request.grid, "--metric", request.metric]
    words += ["--noising"] if request.noising else []
    return shlex.join([*words, *(["--chat"] if chat else [])])


def _noise(request: MapPatches) -> list[str]:
    words = ["--noise", f"{request.noise:g}", "--seeds", str(request.seeds)]
    return words + (["--subject", request.subject] if request.subject else [])


def command_of_quality(request: MeasureQuality, text: str) -> str:
    """Repeat a measurement on the text of a file."""
    files = [request.path, "--base", request.base] if request.path else [request.base]
    words = ["cutaway", "quality", *files, "--text", text, "--ctx", str(request.n_ctx)]
    for one in request.swaps:
        words += ["--what-if", f"{one.pattern}={one.type}" if one.type else one.pattern]
    words += ["--chunks", str(request.n_chunks)] if request.n_chunks is not None else []
    words += ["--drift"] if request.drift else []
    return shlex.join([*words, *(["--guilty"] if request.guilty else [])])


def command_of_recording(request: RecordDataset, model: str) -> str:
    """Repeat a recording."""
    words = ["cutaway", "record", model, *request.paths, "--out", request.out]
    words += ["--what", ",".join(request.what), "--ctx", str(request.n_ctx)]
    return shlex.join([*words, *(["--resume"] if request.resume else [])])


def command_of_features(request: FindFeatures, model: str) -> str:
    """Find the features of a text again."""
    chat = request.text.prompt is None
    words = [
        "cutaway",
        "features",
        model,
        "--sae",
        request.sae,
        "--prompt",
        as_prompt(request.text),
    ]
    words += ["--top", str(request.top)]
    for name, value in (("--site", request.site), ("--names", request.names)):
        words += [name, value] if value else []
    return shlex.join([*words, *(["--chat"] if chat else [])])
