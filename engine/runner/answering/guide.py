"""What may follow in one answer: anything, or what its form allows."""

from engine.answers.forms import thought_end
from engine.protocol import AnswerForm
from engine.runner.answering.forming import Forming
from engine.sampling.constraint import (
    BadForm,
    Constraint,
    FormFailed,
    FormWords,
    Logits,
    grammar_of,
)
from engine.tokenizer import Tokenizer


class Guide:
    """Holds an answer to a form, from its start, or behind the thought that its prompt `opened`.

    It is asked about logits, then told of the token drawn, then of the text that this gave.
    """

    def __init__(self, words: FormWords, form: AnswerForm, opened: str, begun: str) -> None:
        """`begun` is what there is of the answer. Raises `BadForm`."""
        self._tokenizer = words.tokenizer
        grammar = grammar_of(form)
        self._forming = Forming(words, lambda: grammar)
        self._constraint: Constraint | None = None
        self._thought_end = thought_end(opened)
        self._begun = begun
        self._seen = ""

    def wait(self, seconds: float) -> bool:
        """Whether what is to be made is made by then."""
        return self._forming.wait(seconds)

    def begin(self) -> None:
        """Before the first token. Raises `BadForm`."""
        constraint = self._forming.constraint()
        if not self._thought_end:
            self._constraint = constraint
        if self._begun and not self._go_on(self._begun):
            raise BadForm("the answer so far does not fit it")

    @property
    def is_over(self) -> bool:
        """Whether nothing may follow."""
        return self._constraint is not None and self._constraint.is_over

    @property
    def is_incomplete(self) -> bool:
        """Whether the answer, if it ends here, does not fit its form."""
        return self._constraint is None or not self._constraint.is_complete

    def prepare(self) -> None:
        """Find out what may follow, while there is time. Raises `FormFailed`."""
        if self._constraint is not None and not self._constraint.is_over:
            self._constraint.prepare()

    def masked(self, logits: Logits) -> Logits:
        """Logits [V], -inf for what may not follow. Raises `FormFailed`."""
        return logits if self._constraint is None else self._constraint.masked(logits)

    def take(self, token: int) -> None:
        """This one was drawn. Raises `FormFailed`."""
        if self._constraint is not None:
            self._constraint.take(token)

    def saw(self, text: str) -> None:
        """The answer's text goes on so. Raises `FormFailed`."""
        if self._constraint is None and not self._go_on(text):
            raise FormFailed("what follows the thought does not fit")

    def _go_on(self, text: str) -> bool:
        """Whether a text that comes by itself may follow."""
        if self._constraint is None:
            self._seen += text
            _, mark, text = self._seen.partition(self._thought_end)
            if not mark:
                self._seen = self._seen[-len(self._thought_end) :]
                return True
            self._constraint, text = self._forming.constraint(), text.lstrip()
        return self._constraint.take_text(_plain(self._tokenizer, text)) if text else True


def _plain(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=False, continues=True)
