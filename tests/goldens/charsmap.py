"""What SentencePiece makes of characters: rules for it, and the map it keeps of them."""

import unicodedata
from itertools import pairwise


def rule_lines(characters: str) -> list[str]:
    """Compatibility forms of the characters that occur, and of letters with their marks."""
    keys = {*characters, *(a + b for a, b in pairwise(characters) if unicodedata.combining(b))}
    changed = {key: unicodedata.normalize("NFKC", key) for key in keys if key.isprintable()}
    changed |= {"\t": " ", "\n": " ", "\u2028": " ", "\ufeff": ""}
    codes = [
        (" ".join(f"{ord(c):X}" for c in key), " ".join(f"{ord(c):X}" for c in new))
        for key, new in sorted(changed.items())
        if key != new
    ]
    return [f"{key}\t{new}\n" for key, new in codes]


def field(message: bytes, number: int) -> bytes:
    """The bytes of a field of a protocol buffer's message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        size = varint() if key & 7 in (0, 2) else {1: 8, 5: 4}[key & 7]
        if key == number << 3 | 2:
            return message[at : at + size]
        at += 0 if key & 7 == 0 else size
    raise KeyError(number)
