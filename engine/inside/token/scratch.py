"""A second sequence beside the conversation, to compute a token again without touching it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.errors import SequenceBusy
from engine.kvcache.causal import MAX_SEQUENCES
from engine.kvcache.group import CacheGroup
from engine.runner.pictures.items import Item, rows_looked_at
from engine.runner.sequence import Sequenced

SCRATCH = MAX_SEQUENCES - 1
"""The sequence's number: its bit is in no cell but while something is computed again."""


@dataclass(frozen=True)
class Scratch:
    """`sequence` holds the first items of a context; the rest is to be computed. Where it
    `is_conversation`, what followed these in the conversation is forgotten.
    """

    sequence: Sequenced
    is_conversation: bool


@contextmanager
def scratch(conversation: Sequenced, context: Sequence[Item]) -> Iterator[Scratch]:
    """A sequence to compute `context` in, of which it shares the conversation's cells.

    It takes free cells for what is not shared and gives them back at the end, whatever happens: the
    conversation's cells stay as they are. Where too few are free, also for pictures that layers
    look at, the conversation itself goes on with the context. Raises `SequenceBusy` where it
    cannot, as it is being answered.
    """
    caches = conversation.stepper.built.caches
    caches.remove(SCRATCH, 0)  # should an end have failed
    n = conversation.shared(context)
    try:
        caches.share(SCRATCH, conversation.number, n)
        if _has_room(caches, context[n:]):
            held = list(context[:n])
            beside = Sequenced(conversation.stepper, conversation.viewer, held, SCRATCH)
            yield Scratch(beside, False)
            return
    finally:
        try:
            caches.remove(SCRATCH, 0)
        except BaseException:  # it may be interrupted, but not left out
            caches.remove(SCRATCH, 0)
            raise
    if conversation.is_held:
        raise SequenceBusy
    conversation.reuse(context)
    yield Scratch(conversation, True)


def _has_room(caches: CacheGroup, items: Sequence[Item]) -> bool:
    """True if there are cells for items, and for the rows of pictures that layers look at."""
    if caches.encoded is not None and caches.encoded.n_room < rows_looked_at(items):
        return False
    return caches.n_free >= len(items)
