"""Finding a title by some of its letters."""


def score(query: str, title: str) -> float | None:
    """How well `query` names `title`, higher is better; None where its letters do not all occur
    in order. Starts of words and runs of letters count more.
    """
    wanted, text = query.lower().replace(" ", ""), title.lower()
    total, at, run = 0.0, 0, 0
    for letter in wanted:
        found = text.find(letter, at)
        if found < 0:
            return None
        starts_word = found == 0 or not text[found - 1].isalnum()
        run = run + 1 if found == at and at > 0 else 0
        total += 1 + 2 * starts_word + run - 0.05 * (found - at)
        at = found + 1
    if query.lower() in text:
        total += 4 + 4 * text.startswith(query.lower())
    return total - 0.01 * len(text)
