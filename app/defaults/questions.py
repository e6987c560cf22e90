"""Questions offered in an empty chat: ones that the model answers well."""

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


def suggested_questions(family: str, chat: str) -> tuple[str, ...]:
    """Three questions for a model of a family of `Suggested`, or beginnings of texts for a base
    model: `chat` is `Loaded.chat`.
    """
    if chat == "none":
        return BEGINNINGS
    return SMOLLM2 if family == "SmolLM2" else ANY
