"""Limits that a picture can have in a model, and the number of tokens of each."""

from collections.abc import Mapping
from typing import NamedTuple

from engine.protocol import PictureLimits, PicturePlan

UNLIMITED = PictureLimits()
ONE_VIEW = PictureLimits(one_view=True)
CHOICES = (UNLIMITED, *(PictureLimits(rows) for rows in (2048, 1024, 512, 256, 128, 64)), ONE_VIEW)
"""What a model is asked for."""


class PricedLimits(NamedTuple):
    """Limits of a picture, and what becomes of it within them."""

    limits: PictureLimits
    plan: PicturePlan


def choices(plans: Mapping[PictureLimits, PicturePlan]) -> list[PricedLimits]:
    """Return the CHOICES that make a difference, the largest first; the first has no limits.

    Models of one size for all pictures leave that one. One view goes before a number that comes to
    the same.
    """
    whole, alone = plans[UNLIMITED], plans[ONE_VIEW]
    found = {whole.n_rows: PricedLimits(UNLIMITED, whole)}
    for limits in CHOICES:
        plan = plans[limits]
        if limits.rows is not None and plan.n_rows <= limits.rows:
            found.setdefault(plan.n_rows, PricedLimits(limits, plan))
    if alone.n_rows < whole.n_rows:
        found[alone.n_rows] = PricedLimits(ONE_VIEW, alone)
    return [found[n] for n in sorted(found, reverse=True)]
