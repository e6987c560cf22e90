"""Forms of an answer: a token that would break the form is not sampled."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.message import Reply, Request


class JsonObject(msgspec.Struct, frozen=True, tag="json"):
    """Any JSON object."""


class JsonSchema(msgspec.Struct, frozen=True, tag="schema"):
    """JSON that fits a schema, which is JSON as text."""

    text: str


class Regex(msgspec.Struct, frozen=True, tag="regex"):
    """A text that a regular expression matches from its start to its end."""

    pattern: str


class Grammar(msgspec.Struct, frozen=True, tag="grammar"):
    """A text of a grammar: Lark as llguidance reads it, or GBNF as llama.cpp does."""

    text: str
    syntax: Literal["lark", "gbnf"] = "lark"


AnswerForm = JsonObject | JsonSchema | Regex | Grammar


class FormChecked(Reply, frozen=True):
    """Why a form cannot be answered in, in a sentence; empty where it can."""

    problem: str


class CheckForm(Request[FormChecked], frozen=True):
    """True if a form is one that an answer can be held to, whatever model is open."""

    beside: ClassVar[bool] = True

    form: AnswerForm
