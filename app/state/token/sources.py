"""The sources of a word: what of the chat and of its pictures a head looked at."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from app.documents.document import Document
from app.state.token.context import ContextMap, Part
from app.state.token.readings import Floats, strongest
from engine.protocol import PlacedRows

MOST_LIT = 160  # items that are lit at once
FAINTEST = 0.1  # of the brightest: what is less is not lit
LISTED = 12

Light = tuple[int, int, float]
"""The first character, the one behind the last, and how strongly it is lit, from 0 to 1."""


@dataclass(frozen=True)
class WordSource:
    """An item that was looked at, and its share of the look; `part` is None for a picture, which
    stands in no message's text: that is its first item, the share of all its rows. `document` is
    the one whose text the item is of.
    """

    item: int
    text: str
    share: float
    part: Part | None
    picture: int | None = None  # its number in the conversation
    document: Document | None = None


class Sources:
    """Shares of all items of a context; together 1, but for a head's own sink.

    The first item is apart: many heads look there when they look at nothing. Words are lit by
    their share of the largest one, the template's words and the first item left out.
    """

    def __init__(self, context: ContextMap, weights: Floats) -> None:
        self._context, self.weights = context, weights
        self.first = float(weights[0]) if len(weights) else 0.0
        of_chat = context.of_chat(len(weights))
        of_chat[:1] = False
        self._of_chat: Floats = np.where(of_chat, weights, 0)
        self.in_template = float(weights[1:][~of_chat[1:]].sum())
        self.largest = float(self._of_chat.max()) if len(weights) else 0.0

    def listed(self, most: int = LISTED) -> list[WordSource]:
        """The strongest of the chat, the strongest first; each picture is one of them."""
        words = self._of_chat.copy()
        for rows in self._context.rows:
            words[rows.token : rows.token + rows.count] = 0
        found = [self._source(item) for item in strongest(words, most)]
        firsts = {rows.picture: rows.token for rows in reversed(self._context.rows)}
        for picture, share in self.of_pictures().items():
            if share > 0:
                found.append(WordSource(firsts[picture], "", share, None, picture))
        return sorted(found, key=lambda source: -source.share)[:most]

    def lights(self) -> dict[int | str, list[Light]]:
        """Highlighted ranges in order: of a message by its id, of a document by its hash."""
        found: dict[int | str, list[Light]] = defaultdict(list)
        for item in sorted(strongest(self._of_chat, MOST_LIT, FAINTEST**2 * self.largest)):
            part = self._context.part(item)
            if part is not None and part.last > part.first:
                strength = float(np.sqrt(self._of_chat[item] / self.largest))
                document = self._context.document(part)
                place = part.message if document is None else document.hash
                found[place].append((part.first, part.last, strength))
        return dict(found)

    def of_rows(self) -> dict[tuple[int, int], dict[int, float]]:
        """Shares of attention by picture and view: for each (picture's number, view) the share of
        each row; learned rows, which are of no view, are left out.
        """
        found: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        for rows in self._context.rows:
            shares = self._shares(rows)
            if rows.view >= 0 and shares:
                found[rows.picture, rows.view].update(enumerate(shares, rows.first))
        return dict(found)

    def of_pictures(self) -> dict[int, float]:
        """Shares of attention by picture's number, summed over its rows."""
        found: dict[int, float] = defaultdict(float)
        for rows in self._context.rows:
            found[rows.picture] += sum(self._shares(rows))
        return dict(found)

    def _shares(self, rows: PlacedRows) -> list[float]:
        shares: list[float] = self.weights[rows.token : rows.token + rows.count].tolist()
        return shares

    def _source(self, item: int) -> WordSource:
        share, part = float(self.weights[item]), self._context.part(item)
        document = self._context.document(part) if part is not None else None
        return WordSource(item, self._context.text(item), share, part, document=document)
