"""Sources of a word inside attached documents, against offsets counted by hand."""

import numpy as np

from app.documents.document import PAGE, Document
from app.documents.pieces import of_pieces, pieces_of
from app.state.talk.message import Message
from app.state.token.context import ContextMap
from app.state.token.sources import Sources
from tests.app.state.token.test_context import items

LOG = Document("log.txt", "text", "\nfirst row\nthe pump failed\nlast row\n", 30)
REPORT = Document("report.pdf", "pdf", f"A page.{PAGE}Another page with words.", 30)
ASKED = Message(1, 1, None, "user", "What failed", documents=(LOG, REPORT))


def sources_of(message: Message, looked_at: str) -> Sources:
    """All attention is on one word of the prompt, which is there once."""
    told = items(f"<s>user\n{message.prompt.strip()}<e>\n<s>assistant\n")
    context = ContextMap(told, [message])
    words = [context.text(n) for n in range(len(context))]
    assert words.count(looked_at) == 1
    return Sources(context, np.array([word == looked_at for word in words], np.float32))


def test_a_word_of_a_document_is_lit_in_its_text() -> None:
    for word, document in ((" pump", LOG), ("Another", REPORT)):
        sources = sources_of(ASKED, word)
        at = document.text.index(word)
        assert sources.lights() == {document.hash: [(at, at + len(word), 1.0)]}
        (source,) = sources.listed(1)
        assert source.document is document
        assert source.part is not None
        assert source.part.first == at


def test_a_word_of_the_question_is_lit_in_the_message() -> None:
    sources = sources_of(ASKED, "What")
    assert sources.lights() == {1: [(0, 4, 1.0)]}
    assert sources.listed(1)[0].document is None


def test_the_name_of_a_document_is_of_the_chat_template_not_of_its_text() -> None:
    assert sources_of(ASKED, " report.pdf").lights() == {}


def test_a_document_alone_is_found_too() -> None:
    alone = Message(1, 1, None, "user", "", documents=(LOG,))
    assert sources_of(alone, " pump").lights() == {LOG.hash: [(14, 19, 1.0)]}


def test_places_are_named_by_page_line_and_piece() -> None:
    assert LOG.place(LOG.text.index("pump")) == "log.txt, line 3"
    assert REPORT.place(3) == "report.pdf, page 1"
    assert REPORT.place(REPORT.text.index("words")) == "report.pdf, page 2"
    pieces = of_pieces(REPORT, pieces_of(REPORT)[1:])
    assert pieces.place(pieces.text.index("words")) == "report.pdf, page 2"
    hostile = Document("log.txt", "text", "[other.pdf, page 9]\nwords", 9)
    assert hostile.place(22) == "log.txt, line 2"
