"""Constraints on an answer's tokens, from its format or from tool calls."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic

from engine.answers.forms import thought_end
from engine.errors import CutawayError
from engine.protocol import Generate
from engine.runner.forms.call_grammar import PLAIN, calls_grammar, style_of
from engine.runner.forms.tool_form import tool_form
from engine.runner.forms.turns import has_tools
from engine.sampling.constraint import (
    BadForm,
    Constraint,
    FormFailed,
    FormWords,
    Logits,
    grammar_of,
    grammar_of_lark,
)
from engine.tokenizer import ChatTemplate, Tokenizer

LIMIT = 5.0
"""Seconds for reading one form, once the model's vocabulary is ready for forms."""


class Forming:
    """A constraint that a thread makes of the grammar that `grammar` returns."""

    def __init__(self, words: FormWords, grammar: Callable[[], str]) -> None:
        self._words, self._grammar = words, grammar
        self._ended = Event()
        self._made: Constraint | Exception | None = None
        self._began = 0.0
        Thread(target=self._run, daemon=True, name="form").start()

    def wait(self, seconds: float) -> bool:
        """True if `constraint` returns at once by then."""
        return self._ended.wait(seconds) or self._is_late

    def constraint(self) -> Constraint:
        """Wait for the compiled constraint. Raises `BadForm`."""
        while not self.wait(0.05):
            pass
        if self._made is None:
            raise BadForm(f"compiling it takes more than {LIMIT:g} s; use a simpler one")
        if isinstance(self._made, Exception):
            raise self._made
        return self._made

    @property
    def _is_late(self) -> bool:
        return self._began > 0 and monotonic() > self._began + LIMIT

    def _run(self) -> None:
        try:
            grammar = self._grammar()
            self._words.made()
            self._began = monotonic()
            self._made = Constraint(self._words, grammar)
        except CutawayError as error:
            self._made = error
        except Exception as error:  # noqa: BLE001  the client gets it
            self._made = BadForm(f"unexpected {type(error).__name__}: {error}")
        self._ended.set()


@dataclass(frozen=True)
class AnswerRule:
    """A grammar that holds behind a `mark` of the answer's text, or from its start where there is
    none; `must` it hold, or may the answer do without? One may hold where the mark comes `first`.
    """

    grammar: str
    mark: str = ""
    must: bool = True
    first: bool = False


def rule_of(
    tokenizer: Tokenizer, template: ChatTemplate, request: Generate, opened: str
) -> AnswerRule | None:
    """Return the rule that constrains an answer whose prompt has `opened` a thought; None: nothing
    does. Raises `BadForm`, and `BadSetting` for tools that cannot be called.
    """
    mark, tools = thought_end(opened), request.tools
    if request.form is not None:
        return AnswerRule(grammar_of(request.form), mark)
    if not has_tools(request):
        return None
    style = style_of(template, tokenizer)
    if tools.choice == "required" or tools.only:
        return AnswerRule(grammar_of_lark(calls_grammar(style or PLAIN, tools, tokenizer)), mark)
    if style is None and not tool_form(template).tools:
        style = PLAIN
    if style is None:
        return None
    trigger = style.trigger(template.text)
    grammar = calls_grammar(style, tools, tokenizer, trigger)
    return AnswerRule(grammar_of_lark(grammar), trigger, must=False, first=trigger[:1] == "{")


class Guide:
    """Holds an answer to a rule: masks logits, takes the token drawn, then the text it made."""

    def __init__(self, words: FormWords, rule: AnswerRule, begun: str) -> None:
        """`begun` is what there is of the answer."""
        self._tokenizer, self._rule = words.tokenizer, rule
        self._forming = Forming(words, lambda: rule.grammar)
        self._constraint: Constraint | None = None
        self._begun = begun
        self._seen = ""

    def wait(self, seconds: float) -> bool:
        """True if what is to be made is made by then."""
        return self._forming.wait(seconds)

    def begin(self) -> None:
        """Before the first token. Raises `BadForm`."""
        constraint = self._forming.constraint()
        if not self._rule.mark:
            self._constraint = constraint
        if self._begun and not self._go_on(self._begun) and self._rule.must:
            raise BadForm("the answer so far does not fit it")

    @property
    def is_over(self) -> bool:
        """True if nothing may follow."""
        return self._constraint is not None and self._constraint.is_over

    def prepare(self) -> None:
        """Find out what may follow, while there is time. Raises `FormFailed`."""
        if self._constraint is not None and not self._constraint.is_over:
            self._constraint.prepare()

    def masked(self, logits: Logits) -> Logits:
        """Logits [V], -inf for what may not follow. Raises `FormFailed`."""
        return logits if self._constraint is None else self._constraint.masked(logits)

    def forced(self) -> list[int]:
        """The only tokens that may follow, as far as there is no choice."""
        return [] if self._constraint is None else self._constraint.forced()

    def fitting(self, tokens: list[int]) -> int:
        """How many of these may follow one after the other, as far as is known yet."""
        return len(tokens) if self._constraint is None else self._constraint.fitting(tokens)

    def take(self, token: int) -> None:
        """This one was drawn. Raises `FormFailed`."""
        if self._constraint is not None:
            self._constraint.take(token)

    def saw(self, text: str) -> None:
        """The answer's text goes on so. Raises `FormFailed`."""
        if self._constraint is None and not self._go_on(text) and self._rule.must:
            raise FormFailed("what follows the thought does not fit")

    def _go_on(self, text: str) -> bool:
        """True if a text that comes by itself may follow; of one that may not, nothing is held."""
        constraint, mark = self._constraint, self._rule.mark
        if constraint is None:
            self._seen += text
            if self._rule.first and not _begins(self._seen.lstrip(), mark):
                return True
            _, found, text = self._seen.partition(mark)
            if not found:
                self._seen = self._seen if self._rule.first else self._seen[-len(mark) :]
                return True
            self._seen = ""
            constraint = self._forming.constraint().copy()
            text = text.lstrip() if self._rule.must else text
        if text and not constraint.take_text(_plain(self._tokenizer, text)):
            return False
        self._constraint = constraint
        return True


def _begins(text: str, mark: str) -> bool:
    """True if one of them begins with the other."""
    return text.startswith(mark) or mark.startswith(text)


def _plain(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=False, continues=True)
