"""Sampling that suits a model, with the place that each value comes from.

For each field the first of these that has it: a person's choice now, the person's choice kept for
this model, the file's `general.sampling.*`, the settings of the program that stores it (Ollama,
LM Studio), `generation_config.json`, our table by model, the program's own default.
"""

from app.defaults.questions import suggested_questions
from app.defaults.suggest import (
    ModelFacts,
    Suggested,
    facts_in,
    facts_of,
    suggested,
    suggested_for,
    suggested_sampling,
)

__all__ = [
    "ModelFacts",
    "Suggested",
    "facts_in",
    "facts_of",
    "suggested",
    "suggested_for",
    "suggested_questions",
    "suggested_sampling",
]
