"""Answers of a form, by llguidance: which tokens may follow, token by token.

A matcher walks the vocabulary as bytes. Tokens without bytes and control tokens are in no form, but
for those that end an answer, and those that a grammar names.
"""

import json
from collections.abc import Sequence
from copy import copy
from threading import Lock

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import (
    AlternativeNode,
    ASTNode,
    GrammarParser,
    RepetitionNode,
    RuleNode,
    RuleRefNode,
    resolve,
)
from numpy.typing import NDArray

from engine.errors import CutawayError
from engine.protocol import AnswerForm, Grammar, JsonObject, JsonSchema
from engine.sampling.closing import closed
from engine.tokenizer import Tokenizer
from engine.tokenizer.vocab import TokenType
from engine.units import KIB

Logits = NDArray[np.float32]

LONGEST = 256 * KIB
"""Bytes of a schema, an expression or a grammar."""
MOST_RULES = 4000  # of a GBNF: the parser takes a second for so many, and four for twice as many
LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)
OPTIONS = "x-guidance"
JSON_OPTIONS = {"whitespace_pattern": r"\x20|\x0A{1,2}[\x20\x09]{0,20}"}
"""White space between two marks of JSON is bounded as in llama.cpp: small models go on with it."""
_SHOWN = 300
_TABLE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(np.inf),
    np.float32(-np.inf),
)
"""The most that logits of eight tokens may be, by a byte of the mask."""


class BadForm(CutawayError):
    """A form that cannot be answered in: `problem` names what of it is not known or too much."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the structured output: {problem}")


class FormFailed(CutawayError):
    """No token may follow, though the answer is not complete."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the answer cannot continue in its format: {problem}; use a simpler schema or grammar"
        )


class _Words:
    """The vocabulary as llguidance takes it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        ends = sorted(tokenizer.eog)
        self.eos_token_id = tokenizer.eos if tokenizer.eos is not None else ends[0] if ends else 0
        self.bos_token_id = tokenizer.bos
        self.tokens = [tokenizer.piece(token) for token in range(tokenizer.size)]
        kinds = (TokenType.CONTROL, TokenType.UNKNOWN)
        special = [i for i in range(tokenizer.size) if tokenizer.token_type(i) in kinds]
        self.special_token_ids = sorted({*special, *ends})
        for token in self.special_token_ids:
            self.tokens[token] = tokenizer.piece(token, special=True)

    def __call__(self, text: bytes | str) -> list[int]:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        return self._tokenizer.encode(text, add_special=False, parse_special=False, continues=True)


class FormWords:
    """One model's vocabulary for forms, made when the first is requested: 0.2 s for 49,000 tokens,
    1.3 s for 262,000, in whatever thread comes first. llguidance holds Python for half of that, in
    two pieces.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._lock = Lock()
        self._made: LLTokenizer | None = None

    def made(self) -> LLTokenizer:
        """The vocabulary. Raises `BadForm` where nothing in it ends an answer."""
        with self._lock:
            if self._made is None:
                ends = sorted(self.tokenizer.eog)
                if not ends:
                    raise BadForm("the model has no token that ends an answer")
                words = TokenizerWrapper(_Words(self.tokenizer))
                plain = LLTokenizer(words, n_vocab=len(words.tokens), eos_token=ends, slices=[])
                self._made = plain.with_slices(LLTokenizer.json_slices())
            return self._made


class Constraint:
    """The constraint on the tokens of one answer. Not for two threads at once."""

    def __init__(self, words: FormWords, grammar: str) -> None:
        """`grammar` as `grammar_of` makes it. Raises `BadForm` for one that llguidance does not
        know, that is too large, or that nothing fits.
        """
        tokenizer = words.made()
        self._matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
        self._mask = np.zeros((tokenizer.vocab_size + 31) // 32, np.int32)
        self._is_ready = False
        self._limit = np.empty(0, np.float32)
        try:
            self.prepare()
        except FormFailed:
            raise BadForm(_in_words(self._matcher.get_error()) or "no text matches it") from None

    def copy(self) -> "Constraint":
        """Another one at the same place."""
        other = copy(self)
        other._matcher, other._mask = self._matcher.deep_copy(), self._mask.copy()
        other._limit = np.empty(0, np.float32)
        return other

    @property
    def is_over(self) -> bool:
        """True if nothing but the end may follow."""
        return bool(self._matcher.is_stopped())

    def prepare(self) -> None:
        """Find out what may follow, now rather than on use. Raises `FormFailed`."""
        if self._is_ready:
            return
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if self._matcher.is_error() or not self._mask.any():
            raise FormFailed(_in_words(self._matcher.get_error()) or "no token may follow")
        self._is_ready = True

    def masked(self, logits: Logits) -> Logits:
        """Logits [V] with -inf for what may not follow; overwritten by the next call. Raises
        `FormFailed`.
        """
        self.prepare()
        if self._limit.size < logits.size + 8:
            self._limit = np.full(-(-logits.size // 8) * 8 + 8, -np.inf, np.float32)
        bits = self._mask.view(np.uint8)[: -(-logits.size // 8)]
        rows = self._limit[: bits.size * 8].reshape(-1, 8)
        np.take(_TABLE, bits, axis=0, out=rows, mode="clip")
        limit = self._limit[: logits.size]
        np.minimum(logits, limit, out=limit)
        if not np.isfinite(limit.max()) and np.isfinite(logits.max()):
            raise FormFailed("the model has no logit for what may follow")
        return limit

    def take(self, token: int) -> None:
        """A token was drawn. Raises `FormFailed` where it may not follow."""
        if not self._matcher.consume_token(token):
            raise FormFailed(_in_words(self._matcher.get_error()))
        self._is_ready = False

    def forced(self) -> list[int]:
        """The only tokens that may follow, as far as there is no choice. Nothing is taken."""
        found: list[int] = [] if self.is_over else self._matcher.compute_ff_tokens()
        return found

    def fitting(self, tokens: Sequence[int]) -> int:
        """How many of these may follow one after the other. Nothing is taken."""
        return 0 if self.is_over else int(self._matcher.validate_tokens(list(tokens)))

    def take_text(self, tokens: Sequence[int]) -> bool:
        """True if these may follow one after the other; they are taken where they all may."""
        if self._matcher.validate_tokens(list(tokens)) < len(tokens):
            return False
        self._is_ready = False
        return bool(self._matcher.consume_tokens(list(tokens)))


def grammar_of(form: AnswerForm) -> str:
    """A form as llguidance reads it. Raises `BadForm` for what is too long or cannot be read."""
    text = form.text if isinstance(form, JsonSchema | Grammar) else getattr(form, "pattern", "")
    if (size := len(text.encode("utf-8", "replace"))) > LONGEST:
        raise BadForm(f"{size} bytes, but {LONGEST} at most")
    if isinstance(form, JsonObject):
        return _of_schema('{"type": "object"}')
    if isinstance(form, JsonSchema):
        return _of_schema(form.text)
    if isinstance(form, Grammar):
        return LLMatcher.grammar_from_lark(_lark(form))
    backslashes = len(form.pattern) - len(form.pattern.rstrip("\\"))
    if backslashes % 2:  # llguidance leaves the last one out
        raise BadForm("the expression ends with a backslash that escapes nothing")
    return LLMatcher.grammar_from_regex(form.pattern)


def grammar_of_lark(text: str) -> str:
    """A grammar of our own making, whose parts strangers may have given."""
    return grammar_of(Grammar(text))


def problem_of(form: AnswerForm) -> str:
    """Why a form cannot be answered in, as far as no vocabulary says; "" where nothing is wrong."""
    try:
        grammar = grammar_of(form)
    except BadForm as error:
        return error.problem
    return _in_words(LLMatcher.validate_grammar(grammar, None, limits=LIMITS))


def _of_schema(text: str) -> str:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise BadForm("the schema is nested too deeply") from None
    except ValueError as error:
        raise BadForm(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise BadForm("a schema is a JSON object")
    # Where llguidance looks for options; one has it pass over what it does not know.
    if isinstance(schema, dict) and OPTIONS in schema:
        raise BadForm(f"the schema has {OPTIONS!r}, which is not supported")
    try:
        if isinstance(schema, dict):
            schema = {**closed(schema), OPTIONS: JSON_OPTIONS}
        return LLMatcher.grammar_from_json_schema(json.dumps(schema))
    except ValueError as error:
        raise BadForm(f"the schema cannot be read: {_in_words(str(error))}") from None


def _lark(form: Grammar) -> str:
    if form.syntax == "lark":
        return form.text
    if (count := form.text.count("::=")) > MOST_RULES:
        raise BadForm(f"the grammar has {count} rules, but {MOST_RULES} at most")
    try:
        rules = GrammarParser().parse(form.text)
        resolve(rules)
        ordered = sorted(rules.values(), key=lambda rule: rule.order)
        _check_ends(ordered)
        for rule in ordered:
            _parenthesise(rule)
        return "\n".join(["%llguidance {}", *map(str, ordered)])
    except BadForm:
        raise
    except Exception as error:  # noqa: BLE001  the parser raises plain `Exception`, too
        problem = _in_words(str(error)) if not isinstance(error, RecursionError) else ""
        raise BadForm(f"the grammar is not GBNF: {problem or 'too deep'}") from None


def _check_ends(rules: Sequence[RuleNode]) -> None:
    """Refuse a grammar that no finite text fits, as `root ::= "a" root`: an answer would have no
    end.
    """
    above: dict[int, list[ASTNode]] = {}  # by a node's id, the nodes that wait for it
    missing: dict[int, int] = {}  # by a node's id, how many of those below it must end still
    ended: list[ASTNode] = []
    nodes: list[ASTNode] = list(rules)
    while nodes:
        node = nodes.pop()
        below = [node.target] if isinstance(node, RuleRefNode) else node.children()
        for one in below:
            above.setdefault(id(one), []).append(node)
        nodes += node.children()
        optional = isinstance(node, RepetitionNode) and node.min_times == 0
        any_does = isinstance(node, AlternativeNode)
        missing[id(node)] = 0 if optional else 1 if any_does else len(below)
        if not missing[id(node)]:
            ended.append(node)
    while ended:
        for node in above.get(id(ended.pop()), ()):
            missing[id(node)] -= 1
            if missing[id(node)] == 0:
                ended.append(node)
    if any(rule.name == "start" and missing[id(rule)] > 0 for rule in rules):
        raise BadForm("the grammar never ends: each way through its rules comes back to a rule")


def _parenthesise(node: ASTNode) -> None:
    """Put a repetition that is repeated in parentheses, which llguidance prints without."""
    for child in node.children():
        _parenthesise(child)
    if isinstance(node, RepetitionNode) and isinstance(node.node, RepetitionNode):
        node.node = AlternativeNode([node.node])


def _in_words(problem: str) -> str:
    """llguidance's words on one line, those about keywords in ours."""
    line = " ".join(problem.replace("<non-verbose/>", "").split())
    if line.startswith("NoExtension"):
        return "no text matches it"
    line = line.replace("Unimplemented keys:", "unsupported keywords in the schema:")
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
