"""What a step computes of an answer."""

from typing import NamedTuple

from engine.runner.answering.answer import RunningAnswer
from engine.runner.pictures.items import Item
from engine.runner.stepper import Extras


class Piecemeal(NamedTuple):
    """What a step computes of an answer."""

    answer: RunningAnswer
    part: list[Item]
    extras: Extras

    @property
    def is_last(self) -> bool:
        """True if logits are wanted behind it: nothing is pending after it."""
        return len(self.part) == len(self.answer.pending)

    @property
    def is_alone(self) -> bool:
        """True if it takes a step of its own, as where it shows pictures."""
        extras = self.extras
        shows = extras.rows is not None or extras.ends is not None or bool(extras.entering)
        return shows or self.answer.is_alone

    @property
    def n_rows(self) -> int:
        """Rows of pictures that enter with it, for layers that look at them."""
        return sum(len(one.rows) for one in self.extras.entering)
