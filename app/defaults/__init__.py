"""Sampling that suits a model, with the place that each value comes from.

For each field the first of these that has it: a person's choice now, the person's choice kept for
this model, the file's `general.sampling.*`, the settings of the program that stores it (Ollama,
LM Studio), `generation_config.json`, our table by model, the program's own default.
"""

from app.defaults.suggest import (
    ModelFacts,
    Suggested,
    facts_in,
    facts_of,
    suggested,
    suggested_for,
    suggested_sampling,
)

SMOLLM2 = (
    "Who was the first person to walk on the Moon?",
    "What is the largest ocean on Earth?",
    "Explain gravity in one sentence.",
)
"""SmolLM2 135M answers each rightly with 25 of 25 seeds (tests/answers)."""

ANY = (
    "Explain in three sentences how a rainbow forms.",
    "Give me three tips for better sleep.",
    "Write a short poem about the sea.",
)

BEGINNINGS = (
    "Once upon a time, there was a",
    "The three most important inventions of the last century are",
    "To make a good cup of tea, you",
)


TASKS = (
    "translate English to German: The house is old, but the garden is beautiful.",
    "summarize: The meeting was moved from Monday to Friday, because the room is painted.",
    "Answer the question: What is the largest ocean on Earth?",
)


def suggested_questions(family: str, chat: str) -> tuple[str, ...]:
    """Three questions for a model of a family of `Suggested`, beginnings of texts for a base model,
    or tasks for one that answers each message alone: `chat` is `Loaded.chat`.
    """
    if chat == "none":
        return BEGINNINGS
    if chat == "alone":
        return TASKS
    return SMOLLM2 if family == "SmolLM2" else ANY


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
