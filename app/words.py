"""Words that the window and the terminal share.

A dash is one sign everywhere, "–": alone for what is unknown or nothing, between the ends of a
range without spaces, between names with them. "-" joins words and begins options; "—" is not used.
"""

from engine.protocol import StageName

UNKNOWN = "–"

STAGES: dict[StageName, str] = {
    "load": "Loading the model",
    "compile": "Building kernels",
    "decode": "Decoding the picture",
    "encode": "Encoding the picture",
    "form": "Reading the output format",
    "prefill": "Reading the prompt",
    "look": "Inspecting a token",
    "score": "Scoring the text",
    "embed": "Embedding the texts",
    "bench": "Measuring",
}
"""What the engine does, as a title; in a line of text without the capital."""
