"""A second sequence beside the conversation, to compute a token again without touching it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.errors import SequenceBusy
from engine.kvcache.causal import MAX_SEQUENCES
from engine.runner.pictures.items import Item, PictureRow
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
    conversation's cells stay as they are. Where too few are free, or pictures are in the way that
    layers look at, the conversation itself goes on with the context. Raises `SequenceBusy` where
    it cannot, as it is being answered.
    """
    caches = conversation.stepper.built.caches
    caches.remove(SCRATCH, 0)  # should an end have failed
    n = conversation.shared(context)
    if caches.n_free < len(context) - n or not _sees_the_same(conversation, context, n):
        if conversation.is_held:
            raise SequenceBusy
        conversation.reuse(context)
        yield Scratch(conversation, True)
        return
    try:
        caches.share(SCRATCH, conversation.number, n)
        beside = Sequenced(conversation.stepper, conversation.viewer, list(context[:n]), SCRATCH)
        yield Scratch(beside, False)
    finally:
        try:
            caches.remove(SCRATCH, 0)
        except BaseException:  # it may be interrupted, but not left out
            caches.remove(SCRATCH, 0)
            raise


def _sees_the_same(conversation: Sequenced, context: Sequence[Item], n: int) -> bool:
    """Whether layers that look at pictures, of which one sequence alone has any, see the context's:
    the conversation goes on like it, and no picture enters.
    """
    if conversation.stepper.built.caches.encoded is None:
        return True
    pairs = zip(conversation.items[n:], context[n:], strict=False)
    alike = all(held == wanted for held, wanted in pairs)
    return alike and not any(isinstance(item, PictureRow) for item in context[n:])
