"""How the Token view writes words, shares and ranks."""

from app.widgets.numbers import grouped

LONGEST = 24  # characters of a word
LOOKED_AT = 200
BETWEEN = "  ·  "


def shown(text: str) -> str:
    """A token's text with its white space to be seen, short."""
    text = text[:LOOKED_AT]  # a server may write a whole answer as one token
    marked = text.replace("\n", "↵").replace("\t", "⇥")
    marked = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in marked)
    marked = f"␣{marked[1:]}" if marked[:1] == " " and not marked.strip() else marked.strip(" ")
    return (marked if len(marked) <= LONGEST else f"{marked[: LONGEST - 1]}…") or "∅"


def percent(share: float) -> str:
    """A share of 1, as short as it says something."""
    if share >= 0.9995:
        return "100 %"
    if share >= 0.0995:
        return f"{share * 100:.0f} %"
    if share >= 0.0005:
        return f"{share * 100:.1f} %"
    return "< 0.1 %"


def place(rank: int) -> str:
    """A rank that counts from 1."""
    return grouped(rank)


def bits(entropy: float) -> str:
    return f"{entropy:.1f} bits"
