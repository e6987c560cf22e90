"""Minnow as an embedding model: it is not asked for logits."""

from engine.models.base import Output
from engine.models.text import minnow

Params, Weights = minnow.Params, minnow.Weights


class Model(minnow.Model):
    """The rest is the same."""

    gives = frozenset({Output.EMBEDDINGS})
