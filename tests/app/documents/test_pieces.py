"""Pieces of a long document: whole and in order; the page with the answer is chosen."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.documents.document import PAGE, Document
from app.documents.pieces import LONGEST, OVERLAP, Ranking, closest_sentence, of_pieces, pieces_of

BUDGET = 8000  # characters: half of a context of 4,096 tokens

# A page's fact, and a question for it in other words or other forms of them.
FACTS = (
    ("The ferry leaves the north pier at twenty past six every morning.",
     "When does the first ferry depart?"),
    ("Insulin must be kept between two and eight degrees in the clinic's refrigerator.",
     "At which temperature is insulin stored?"),
    ("Borrowed maps may stay outside the library for eleven days.",
     "How many days can I borrow a map from the library?"),
    ("The mill's great wheel was replaced by a turbine in 1931.",
     "What replaced the wheel of the mill?"),
    ("Applications for a fishing licence go to the harbour office, room 14.",
     "Where do I apply to get a licence for fishing?"),
    ("The choir rehearses on Thursdays above the bakery.",
     "Where are the rehearsals of the choir?"),
    ("Dogs are allowed on the beach from October to March only.",
     "In which months may a dog be taken to the beach?"),
    ("The council consists of nine members, elected for five years.",
     "How many council members are there?"),
    ("Rainwater tanks above 4,000 litres need a permit from the water board.",
     "Do I need permission for a large rainwater tank?"),
    ("The observatory's telescope has a mirror of 61 centimetres.",
     "How large is the telescope mirror?"),
    ("Bees may not be kept closer than thirty metres to a school.",
     "What distance to a school must beekeepers respect?"),
    ("A lost key to the boathouse costs forty crowns.",
     "What is the charge for losing the boathouse key?"),
    ("The avalanche siren sounds three long tones, then a pause of ten seconds.",
     "How does the siren warn of avalanches?"),
    ("The glassworks' furnace burns at 1,450 degrees day and night.",
     "How hot is the furnace in the glassworks?"),
    ("Compost is collected in the brown bins on the second Monday of a month.",
     "When are brown compost bins emptied?"),
    ("The chapel's oldest bell was cast by Marta Lindqvist.",
     "Who cast the old bell in the chapel?"),
    ("Electric bicycles are charged free of cost behind the town hall.",
     "Is there free charging for an electric bicycle?"),
    ("The tunnel closes when the wind exceeds 22 metres a second.",
     "At what wind speed is the tunnel closed?"),
    ("Seeds from the exchange must be labelled with the year of harvest.",
     "What has to be on the label of exchanged seeds?"),
    ("The archive keeps parish registers from 1688 onwards.",
     "From which year on are there parish registers in the archive?"),
)  # fmt: skip
FILLER = (
    "The {a} near the {b} was discussed at length, and nothing was decided about the {c}.",
    "Visitors ask about the {a}; most of them go on to the {b} or the {c} afterwards.",
    "In the year before, the {b} was closed for repairs, as was the {a}.",
    "Several people of the council wanted a larger {c} and a smaller {a}.",
    "How many days this may take, and at which temperature, depends on the {b}.",
    "A permit for the {a} has been in the harbour office since the first {c} was built.",
)
THINGS = (
    "ferry", "clinic", "library", "mill", "wheel", "licence", "choir", "bakery", "beach", "dog",
    "council", "water tank", "telescope", "mirror", "school", "bee", "key", "boathouse", "siren",
    "furnace", "bin", "bell", "chapel", "bicycle", "town hall", "tunnel", "wind", "seed", "archive",
    "parish", "pier", "map", "turbine", "year", "month",
)  # fmt: skip


def pages() -> tuple[list[str], list[int]]:
    """A hundred pages, each about five things, and the page of each fact, from 1: one of some
    fourteen that are about a thing of the fact.
    """
    draw = random.Random(7)

    def sentence(things: Sequence[str]) -> str:
        a, b, c = draw.sample(things, 3)
        return draw.choice(FILLER).format(a=a, b=b, c=c)

    about = [draw.sample(THINGS, 5) for _ in range(100)]
    made = [[sentence(things) for _ in range(22)] for things in about]
    places = []
    for fact, _ in FACTS:
        near = [n for n, things in enumerate(about) if any(thing in fact for thing in things)]
        places.append(draw.choice(near))
        made[places[-1]].insert(draw.randrange(20), fact)
    return [" ".join(page) for page in made], [place + 1 for place in places]


def test_the_page_with_the_answer_is_chosen() -> None:
    texts, places = pages()
    pieces = pieces_of(Document("town.pdf", "pdf", PAGE.join(texts), 1))
    ranking = Ranking(pieces)
    right = []
    for (_, question), place in zip(FACTS, places, strict=True):
        chosen = [pieces[index] for index in ranking.best(question, BUDGET)]
        assert sum(len(piece.text) for piece in chosen) <= BUDGET
        right.append(place in [piece.first for piece in chosen])
    assert sum(right) >= 18, [q for (_, q), ok in zip(FACTS, right, strict=True) if not ok]


@pytest.mark.parametrize("kind", ["pdf", "text"])
def test_nothing_is_lost_between_pieces(kind: str) -> None:
    texts, _ = pages()
    between = PAGE if kind == "pdf" else "\n"
    document = Document("t", "pdf" if kind == "pdf" else "text", between.join(texts[:5]), 1)
    pieces = pieces_of(document)
    assert all(len(piece.text) <= LONGEST for piece in pieces)
    parts = document.parts()
    for piece in pieces:
        assert piece.text in between.join(parts[piece.first - 1 : piece.last])
    whole = pieces[0].text
    for before, piece in zip(pieces, pieces[1:], strict=False):
        new = kind == "pdf" and piece.first != before.first
        whole += piece.text if new else piece.text[OVERLAP:]
    assert whole.replace("\n", "").replace(" ", "") == "".join(texts[:5]).replace(" ", "")


def test_hard_texts_end() -> None:
    for text in ("", "\n" * 10_000, "a" * 100_000, "🙂" * 5000, "\f" * 500, " \n" * 9000):
        pieces = pieces_of(Document("t", "text", text, 1))
        assert Ranking(pieces).best("a question", 1000) is not None
        assert sum(len(piece.text) for piece in pieces) <= 2 * len(text)


def test_what_fits_nothing_chooses_nothing() -> None:
    ranking = Ranking(pieces_of(Document("t", "text", "Only this.", 1)))
    assert ranking.best("zzz", 1000) == []
    assert Ranking([]).best("zzz", 1000) == []


def test_chosen_pieces_are_a_document_with_their_places() -> None:
    texts = ["one", "two", "three", "four", "five"]
    document = Document("town.pdf", "pdf", PAGE.join(texts), 1)
    pieces = pieces_of(document)
    made = of_pieces(document, [pieces[1], pieces[3]])
    assert made.name == "town.pdf (page 2, page 4)"
    assert made.text == "[town.pdf, page 2]\ntwo\n\n[town.pdf, page 4]\nfour"
    assert of_pieces(document, pieces).name == "town.pdf (page 1, page 2, page 3 and 2 more)"
    assert made.size == len(made.text)


def test_a_long_text_of_the_project(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "goldens" / "text.txt").read_text()
    pieces = pieces_of(Document("text.txt", "text", text, 1))
    [first, *_] = Ranking(pieces).best("What takes the salt out of a soup?", LONGEST)
    assert "potato" in pieces[first].text
    sentence = closest_sentence(pieces[first].text, "What takes the salt out of a soup?")
    assert "takes the salt out" in sentence
