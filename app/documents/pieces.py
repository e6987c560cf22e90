"""Pieces of a long document, ranked by how well they fit a question, without a model.

The rank is BM25 (Robertson and Zaragoza 2009, k1 = 1.2, b = 0.75) over words, and over their parts
of four letters at a lower weight, so that other forms of a word count as well. Of the best pieces
those come first that have the question's words in one sentence.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.documents.document import PAGE, Document

LONGEST = 1600  # characters of a piece, some 400 tokens
OVERLAP = 240  # characters that a piece shares with the one before
K1, B = 1.2, 0.75
GRAM = 4  # letters
GRAM_WEIGHT = 0.25
MOST_PIECES = 50_000
READ_CLOSELY = 200  # pieces in which words of one sentence are looked for
CLOSENESS = 1.0  # weight of such words against words of the whole piece
PREFIXES = {
    "nomic-bert": ("search_query: ", "search_document: "),
    "nomic-bert-moe": ("search_query: ", "search_document: "),
    "gemma-embedding": ("task: search result | query: ", "title: none | text: "),
    "qwen3": ("Instruct: Given a question, retrieve passages that answer it\nQuery: ", ""),
}
"""What embedding models were trained to see before a question and before a passage, by their
architecture.
"""
_SENTENCES = re.compile(r"(?<=[.!?;:])\s|\n")
_WORD = re.compile(r"\w+")
_BREAKS = ("\n\n", "\n", ". ", " ")  # where a piece ends, the best first


@dataclass(frozen=True)
class Piece:
    """A part of a document's text; `first` and `last` are its pages or lines, from 1."""

    text: str
    first: int
    last: int

    def label(self, unit: str) -> str:
        """Its place: "page 3" or "lines 10–24"."""
        if self.first == self.last:
            return f"{unit} {self.first}"
        return f"{unit}s {self.first}–{self.last}"


def pieces_of(document: Document) -> list[Piece]:
    """The pieces of a document in order; one of a PDF does not go beyond its page."""
    pieces: list[Piece] = []
    if document.kind == "pdf":
        for number, page in enumerate(document.text.split(PAGE), 1):
            pieces += [Piece(page[a:b], number, number) for a, b in _spans(page)]
    else:
        line, at = 1, 0
        for a, b in _spans(document.text):
            line, at = line + document.text.count("\n", at, a), a
            text = document.text[a:b].rstrip("\n")
            pieces.append(Piece(text, line, line + text.count("\n")))
    return [piece for piece in pieces if piece.text.strip()][:MOST_PIECES]


def _spans(text: str) -> list[tuple[int, int]]:
    """Begin and end of each piece of a text."""
    spans = []
    begin = 0
    while len(text) - begin > LONGEST:
        end = begin + LONGEST
        for mark in _BREAKS:
            found = text.rfind(mark, begin + LONGEST // 2, end)
            if found >= 0:
                end = found + len(mark)
                break
        spans.append((begin, end))
        begin = end - OVERLAP
    return [*spans, (begin, len(text))]


class Ranking:
    """The index of some pieces; `scores` compares them with a question."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._counts = [_terms(piece.text) for piece in pieces]
        self._lengths = [sum(counts.values()) for counts in self._counts]

    @cached_property
    def _holders(self) -> Counter[str]:
        """How many pieces have each term."""
        return Counter(term for counts in self._counts for term in counts)

    def scores(self, question: str) -> list[float]:
        """One number a piece, 0 where nothing of the question is in it."""
        n = len(self.pieces)
        average = sum(self._lengths) / n or 1.0 if n else 1.0
        terms = _terms(question)
        weights = {
            term: math.log(1 + (n - held + 0.5) / (held + 0.5)) * _weight(term)
            for term in terms
            if (held := self._holders[term])
        }
        found = []
        for counts, length in zip(self._counts, self._lengths, strict=True):
            damp = K1 * (1 - B + B * length / average)
            found.append(
                sum(w * counts[t] * (K1 + 1) / (counts[t] + damp) for t, w in weights.items())
            )
        for index in sorted(range(n), key=lambda i: -found[i])[:READ_CLOSELY]:
            if found[index] > 0:
                found[index] += CLOSENESS * _closest(self.pieces[index].text, weights)
        return found

    def best(self, question: str, most: int) -> list[int]:
        """The indices of the pieces that fit best, of at most so many characters together, in the
        order of the document.
        """
        return self.within(self.scores(question), most)

    def within(self, scores: Sequence[float], most: int) -> list[int]:
        """The indices of the pieces with the highest scores above 0, of at most so many characters
        together, in the order of the document.
        """
        chosen: list[int] = []
        for index in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
            size = len(self.pieces[index].text)
            if scores[index] <= 0 or (chosen and size > most):
                break
            chosen.append(index)
            most -= size
        return sorted(chosen)


def closest_sentence(text: str, question: str) -> str:
    """The sentence that has most of a question's words."""
    weights = {term: _weight(term) * len(term.strip()) for term in _terms(question)}
    return max(_SENTENCES.split(text), key=lambda sentence: _held(sentence, weights))


def _closest(text: str, weights: Mapping[str, float]) -> float:
    """The weight of the question's terms that one sentence has, of the sentence with most."""
    return max(_held(sentence, weights) for sentence in _SENTENCES.split(text))


def _held(text: str, weights: Mapping[str, float]) -> float:
    found = _terms(text)
    return sum(weight for term, weight in weights.items() if term in found)


def _terms(text: str) -> Counter[str]:
    """Words, and the parts of long words, which begin with a space to stay apart from words."""
    words = _WORD.findall(text.casefold())
    terms = Counter(words)
    for word in words:
        if len(word) > GRAM:
            terms.update(f" {word[at : at + GRAM]}" for at in range(len(word) - GRAM + 1))
    return terms


def _weight(term: str) -> float:
    return GRAM_WEIGHT if term[0] == " " else 1.0


def of_pieces(document: Document, pieces: Sequence[Piece]) -> Document:
    """Some pieces of a document as a document of its own, each under its place."""
    name, unit = document.name, document.unit
    places = list(dict.fromkeys(piece.label(unit) for piece in pieces))
    shown = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
    text = "\n\n".join(f"[{name}, {p.label(unit)}]\n{p.text.strip()}" for p in pieces)
    return Document(f"{name} ({shown})", "text", text, len(text.encode("utf-8", "replace")))
