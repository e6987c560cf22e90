"""The word that is looked at: which it is, what is known of it, and what it lights in the chat."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.client import Latest
from app.language import tr
from app.state.models.model import ModelState
from app.state.preferences import MOST_LENSES, PreferencesState
from app.state.problem import Problem
from app.state.selection import Selection
from app.state.session import Session
from app.state.talk.chat import ChatState
from app.state.token.live import LiveInside
from app.state.token.question_maker import Contexts, ModelParts, QuestionMaker, parts_of
from app.state.token.questions import WordQuestions
from app.state.token.sources import Light, Sources
from app.state.token.word import TOP, Conversation, Inside, Key, Word, inside_of
from engine.protocol import Alternative, Examine, Examined, TokenInfo, TokenInside


class ChatWords:
    """By a message's id and an index; None or 0 for what is not in the chat or not known."""

    def __init__(self, chat: ChatState, contexts: Contexts) -> None:
        self._chat, self._contexts = chat, contexts

    def has(self, message: int) -> bool:
        """Return whether a message is in the visible path."""
        return self._chat.row_of(message) is not None

    def word(self, key: Key) -> Word | None:
        """The word with its text."""
        row = self._chat.row_of(key[0])
        if row is None:
            return None
        tokens = self._chat.tokens(row)
        if key[1] < len(tokens):
            return Word(*key, tokens[key[1]].text)
        text = self._contexts.text(key)
        return Word(*key, text) if text is not None else None

    def part(self, key: Key) -> tuple[int, int] | None:
        """The characters of the message that a word stands for."""
        row = self._chat.row_of(key[0])
        tokens = self._chat.tokens(row) if row is not None else None
        if tokens is not None and key[1] < len(tokens):
            return tokens.start(key[1]), tokens.end(key[1])
        part = self._contexts.part(key)
        return (part.first, part.last) if part is not None else None

    def index_at(self, message: int, position: int) -> int | None:
        """The word at a place of a message's text."""
        row = self._chat.row_of(message)
        index = self._chat.tokens(row).at(position) if row is not None else None
        return self._contexts.index_at(message, position) if index is None else index

    def count(self, message: int) -> int:
        """How many words a message has."""
        row = self._chat.row_of(message)
        known = len(self._chat.tokens(row)) if row is not None else 0
        return known or self._contexts.count(message)

    def newest(self) -> Key | None:
        """The last word of the answer under way, or of the one before it."""
        latest = self._chat.latest
        row = self._chat.row_of(latest.id) if latest is not None else None
        if latest is None or row is None or not len(self._chat.tokens(row)):
            return None
        return latest.id, len(self._chat.tokens(row)) - 1


SETTLE_MS = 120  # a word must be looked at so long before the request, when stepping
KEPT = 16  # words whose answers are kept


class TokenState(QObject):
    """`word` is the one that is selected, or while `following` the newest of the answer under way
    or just written. `inside` is what is known of it; `questions` hold what is sent, or why not.

    Requests are sent only while the view is `shown`. What is known of a word is kept until the
    model or the system prompt is another.
    """

    changed = Signal()  # the word, what is known of it, its requests
    lit_changed = Signal()  # what is lit in the chat

    def __init__(
        self,
        session: Session,
        chat: ChatState,
        selection: Selection,
        file: ModelState,
        preferences: PreferencesState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._chat, self._selection = session, chat, selection
        self._file, self._preferences = file, preferences
        self.word: Word | None = None
        self.inside: Inside | None = None
        self.sources: Sources | None = None
        self.questions = WordQuestions(session, chat.pictures_in_engine, self)
        self._shown = False
        self.kept: OrderedDict[Key, Inside] = OrderedDict()
        self._contexts = Contexts()
        self._words = ChatWords(chat, self._contexts)
        self.questions_of_chat = QuestionMaker(chat, selection, self._contexts, lambda: self.parts)
        # A message and a place in its text, while that word is looked up.
        self._clicked: tuple[int, int] | None = None
        self._item: tuple[Key, int] | None = None  # a word, an item of its context
        self._selected = selection.now
        self._lit: dict[int | str, list[Light]] = {}
        self._live_inside = LiveInside(chat, self._on_live)
        self._rows = Latest(session.client)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self.send)
        self._basis = self._basis_now()
        session.client.on(TokenInside, self._live_inside.add)
        session.changed.connect(self._basis_changed)
        chat.details.changed.connect(self._basis_changed)
        chat.path_changed.connect(lambda row: self._refresh())
        chat.tokens_appended.connect(lambda row, first: self._refresh())
        chat.busy_changed.connect(self._busy_changed)
        selection.changed.connect(self._selection_changed)
        self.questions.changed.connect(self._questions_changed)
        file.changed.connect(self.changed)
        preferences.changed.connect(self._preference_changed)

    # What is seen

    @property
    def following(self) -> bool:
        """True if the newest token is shown, because none is selected."""
        return self._selection.now.token is None

    @property
    def live(self) -> bool:
        """True if tokens are inspected during an answer."""
        return self._preferences.value.token_live

    @property
    def waits(self) -> bool:
        """True while the inspection waits for the current answer."""
        return self._chat.busy and self.questions.status != "idle"

    @property
    def can_follow(self) -> bool:
        """True if there is a newer token than the one shown."""
        newest = self._newest()
        return not self.following and newest is not None and newest != self._selected.token

    @property
    def count(self) -> int:
        """How many words the message has."""
        return self._words.count(self.word.message) if self.word is not None else 0

    @property
    def parts(self) -> ModelParts | None:
        """Layers and heads of the model, from its file."""
        return parts_of(self._file.content)

    @property
    def recorded(self) -> TokenInfo | None:
        """The data recorded with the token when it was generated, including its alternatives."""
        row = self._chat.row_of(self.word.message) if self.word is not None else None
        if row is None or self.word is None or self.word.index >= len(self._chat.tokens(row)):
            return None
        return self._chat.tokens(row)[self.word.index]

    @property
    def layer(self) -> int | None:
        """The layer that is selected, if it is one whose attention is known."""
        attention = self.inside.attention if self.inside is not None else None
        layer = self._selection.now.layer
        return layer if attention is not None and layer in attention.layers else None

    @property
    def head(self) -> int | None:
        """The head of that layer; None stands for the average."""
        attention = self.inside.attention if self.inside is not None else None
        head = self._selection.now.head
        known = attention is not None and self.layer is not None and head is not None
        return head if known and attention is not None and head in range(attention.n_head) else None

    def lights(self, place: int | str) -> Sequence[Light]:
        """Return the highlighted ranges of a message, by its id, or of a document, by its hash."""
        return self._lit.get(place, ())

    def text(self, message: int, index: int) -> str:
        """Return the text of a token; empty if unknown."""
        word = self._words.word((message, index))
        return word.text if word is not None else ""

    def part(self, message: int, index: int) -> tuple[int, int] | None:
        """The characters of a message that one of its words stands for, where that is known."""
        return self._words.part((message, index))

    # What a person does

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible; hidden views request and highlight nothing."""
        if shown != self._shown:
            self._shown = shown
            if shown:
                self._want()
            else:
                self._stop()
            self._want_live()
            self._refresh()
            self._light()

    def look_at(self, message: int, position: int) -> None:
        """Select the word at a place of a message's text."""
        index = self._words.index_at(message, position)
        if index is not None:
            self._selection.select_token(message, index)
        elif self._words.has(message):  # the engine splits a question into words
            self._stop()
            self._clicked = message, position
            self.questions.send(lambda: self.questions_of_chat.whole(message), self._on_whole)

    def look_at_item(self, word: Key, item: int) -> None:
        """Select the token of the chat at an item of a word's context, or the word where the item
        is the template's own; if the context is not known yet, after the word is inspected.
        """
        context = self._contexts.context(word[0])
        if context is None:
            self._item = word, item
            self._selection.select_token(*word)
            self.send()
            return
        for message in self._chat.path:
            items = context.items_of(message.id)
            if item in items:
                self._selection.select_token(message.id, item - items.start)
                return
        self._selection.select_token(*word)

    def step(self, by: int) -> None:
        """Select the word so many further on in its message."""
        if self.word is not None:
            message, index = self.word.key
            last = self._words.count(message) - 1
            self._selection.select_token(message, min(max(0, index + by), last))

    def branch(self, other: Alternative) -> bool:
        """Go on with another word in the place of this one, in a branch beside the answer; it is
        selected, so that going back comes to this one.
        """
        word = self.word
        row = self._chat.row_of(word.message) if word is not None else None
        if word is None or row is None:
            return False
        self._selection.select_token(*word.key)
        return self._chat.branch_with(row, word.index, other)

    def use_lens(self, path: str) -> None:
        """Read layers with a lens from a file; "" for the logit lens."""
        self.questions_of_chat.lens_file = path
        if path:
            others = [one for one in self.lenses if one != path]
            self._preferences.update(lenses=[path, *others][:MOST_LENSES])
        self._basis_changed()

    @property
    def lenses(self) -> list[str]:
        """Files that layers were read with, the latest first."""
        return list(self._preferences.value.lenses)

    def follow(self) -> None:
        """Look at the newest word again."""
        self._selection.leave_token()

    def toggle_live(self) -> None:
        """Inspect tokens live, or no longer."""
        self._preferences.update(token_live=not self.live)

    def send(self) -> None:
        """Ask the engine about the word now."""
        self._settle.stop()
        self._clicked = None
        if self.word is not None:
            self.questions.send(lambda: self.questions_of_chat.of(self.word), self._on_examined)

    # Which word it is

    def _refresh(self) -> None:
        key = self._wanted()
        word = self._words.word(key) if key is not None else None
        if word == self.word and word is not None:
            return
        if self._clicked is None:
            self._stop()
        self.word = word
        self.inside = None if word is None else self._known(word)
        self._want()
        self._light()
        self.changed.emit()

    def _wanted(self) -> Key | None:
        selected = self._selection.now.token
        if selected is None:
            return self._newest()
        return selected if self._words.has(selected[0]) else None

    def _newest(self) -> Key | None:
        newest, inside = self._words.newest(), self._live_inside.inside
        if newest is not None and inside is not None and inside.word.message == newest[0]:
            return inside.word.key  # of those that are newer no more is known than their text
        return newest

    def _known(self, word: Word) -> Inside:
        inside = self._live_inside.inside
        if inside is not None and inside.word.key == word.key:
            return inside
        return self.kept.get(word.key) or Inside(word)

    # Asking

    def _want(self) -> None:
        """Request what is missing of the word, once it is looked at for a moment."""
        inside = self.inside
        if not self._shown or self._session.model is None or self._clicked is not None:
            return
        if inside is None:
            self._want_selected()
        elif inside.lens is not None:
            self._want_rows()
        elif not self.following or (self.live and not self._chat.busy):
            self._settle.start()

    def _want_live(self) -> None:
        """Have the answer under way, and those that follow, report what is shown of them."""
        looks = self._shown and self.live and self.following
        layer = self._selection.now.layer
        rows = [layer] if looks and layer is not None else []
        asks = dict.fromkeys(("lens", "attention", "choice", "step"), looks)
        self._chat.live.want(**asks, top_k=TOP, rows=rows)
        if not looks:
            self._live_inside.forget_words()

    def _on_live(self) -> None:
        inside = self._live_inside.inside
        if self.following and inside is not None and self._shown:
            self.word, self.inside = inside.word, inside
            self._light()
            self.changed.emit()

    def _want_selected(self) -> None:
        """A question's word is selected, of which it is not known yet where it stands."""
        token = self._selection.now.token
        if token is not None and not self.following and self._words.has(token[0]):
            self.questions.send(lambda: self.questions_of_chat.whole(token[0]), self._on_whole)

    def _on_examined(self, talk: Conversation, request: Examine, examined: Examined) -> None:
        known = self._contexts.context(talk.message.id) if request.at is not None else None
        context = known or talk.map_of(request, examined)  # up to a place in it, it is not complete
        if known is None:
            self._contexts.keep(request, context)
        if self.word is not None:
            self._keep(inside_of(self.word, examined, context))
        wanted, self._item = self._item, None
        if wanted is not None and self.word is not None and self.word.key == wanted[0]:
            self.look_at_item(*wanted)

    def _on_whole(self, talk: Conversation, request: Examine, examined: Examined) -> None:
        self._contexts.keep(request, talk.map_of(request, examined))
        clicked, self._clicked = self._clicked, None
        index = self._contexts.index_at(*clicked) if clicked is not None else None
        if clicked is not None and index is not None:
            self._selection.select_token(clicked[0], index)
        elif clicked is not None and not self._contexts.count(clicked[0]):
            text = tr("This text is not part of the prompt: the chat template leaves it out.")
            self.questions.refuse(Problem("NotRead", text))
        elif clicked is not None:  # between words
            self._want()
        self._refresh()

    def _want_rows(self) -> None:
        """Request the selected layer's rows of attention, where they are not known."""
        attention, question = (
            self.inside.attention if self.inside else None,
            self.questions_of_chat.of(self.word),
        )
        layer = self.layer
        if attention is None or question is None or layer is None or layer in attention.rows:
            return
        word = self.word

        def take_more(more: Examined) -> None:
            if self.word == word and self.inside is not None and more.attention is not None:
                known = inside_of(self.inside.word, more, None).attention
                if known is not None:
                    self._keep(replace(self.inside, attention=attention.with_rows(known.rows)))

        request = msgspec.structs.replace(
            question[1], lens=False, attention_layers=[layer], sampling=None, record=False
        )
        self._rows.send(request, take_more, lambda failed: None)

    def _keep(self, inside: Inside) -> None:
        """This is known of the word now."""
        self.inside = self.kept[inside.word.key] = inside
        self.kept.move_to_end(inside.word.key)
        while len(self.kept) > KEPT:
            self.kept.popitem(last=False)
        self._want_rows()
        self._light()
        self.changed.emit()

    def _stop(self) -> None:
        self._settle.stop()
        self._rows.forget()
        self._clicked = None
        self.questions.forget()

    def _light(self) -> None:
        """Find the sources of the word again, and light them."""
        inside = self.inside
        self.sources = None
        if inside is not None and inside.attention is not None and inside.context is not None:
            weights = inside.attention.weights(self.layer, self.head)
            self.sources = None if weights is None else Sources(inside.context, weights)
        lit = self.sources.lights() if self.sources is not None and self._shown else {}
        if lit != self._lit:
            self._lit = lit
            self.lit_changed.emit()

    # What happens elsewhere

    def _questions_changed(self) -> None:
        if self.questions.problem is not None:
            self._clicked = None
        self.changed.emit()

    def _selection_changed(self) -> None:
        before, self._selected = self._selected, self._selection.now
        now = self._selected
        if now.token != before.token:
            self._clicked = None
            self._want_live()
            self._refresh()
            self._want()
            self.changed.emit()
        elif (now.layer, now.head) != (before.layer, before.head):
            self._want()
            self._want_live()
            self._light()
            self.changed.emit()

    def _busy_changed(self, busy: bool) -> None:
        if busy and self.live:
            self._selection.leave_token()
        self._live_inside.forget_ended()
        self._want_live()
        self._refresh()
        if not busy:
            self._want()
        self.changed.emit()

    def _basis_now(self) -> tuple[object, ...]:
        """The state that all kept results depend on."""
        return self._session.model, self._chat.details.system, self.questions_of_chat.lens_file

    def _basis_changed(self) -> None:
        basis = self._basis_now()
        if basis != self._basis:
            self._basis = basis
            self._stop()
            self.kept.clear()
            self._contexts.forget()
            self.word = self.inside = None
            self._refresh()
        self.changed.emit()

    def _preference_changed(self, field: str) -> None:
        if field == "token_live":
            self._want_live()
            self._refresh()
            self._want()
            self.changed.emit()
