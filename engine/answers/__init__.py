"""What a model's answer says: its thoughts, its text, and the tools it calls."""

from engine.answers.forms import ANY, MARKS, Form, form_of, opened
from engine.answers.passages import Call, Passage
from engine.answers.reader import AnswerReader, read

__all__ = ["ANY", "MARKS", "AnswerReader", "Call", "Form", "Passage", "form_of", "opened", "read"]
