"""How the rows of a text's tokens become its one embedding."""

from enum import IntEnum

from engine.gguf import GGUFFile

KEY = "pooling_type"


class Pooling(IntEnum):
    """`<architecture>.pooling_type`, as llama.cpp numbers it."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


def pooling_of(file: GGUFFile, whole: bool) -> Pooling:
    """The file's pooling. Where it names none, models whose tokens see a `whole` text take the
    mean, others the last token, which has seen all.
    """
    metadata = file.metadata
    usual = Pooling.MEAN if whole else Pooling.LAST
    number = metadata.get(f"{metadata.architecture}.{KEY}", int, int(usual))
    known = {int(kind) for kind in Pooling}
    found = Pooling(number) if number in known else usual
    return usual if found is Pooling.NONE else found
