"""Words that the window and the terminal share."""

from engine.protocol import StageName

STAGES: dict[StageName, str] = {
    "load": "Loading the model",
    "compile": "Building kernels",
    "decode": "Opening the picture",
    "encode": "Looking at the picture",
    "prefill": "Reading the prompt",
    "score": "Scoring the text",
    "bench": "Measuring",
}
"""What the engine does, as a title; in a line of text without the capital."""
