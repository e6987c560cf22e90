"""Features of a sparse autoencoder at the word that the Token view shows."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from app.client import Latest
from app.state.preferences import PreferencesState
from app.state.session import Session
from app.state.talk.chat import ChatState
from app.state.token.token import TokenState
from app.state.token.word import Word
from engine.protocol import ActiveFeature, ComparedText, Failed, FeaturesFound, FindFeatures

MOST = 16  # texts whose features are kept
Text = tuple[ComparedText, int]
"""A text, and which of its tokens a word is: an index from 0, or from the end if it is negative."""


class WordFeatures(QObject):
    """The features of a whole message are requested at once, so that its other words have them.
    `problem` says why there are none.
    """

    changed = Signal()

    def __init__(
        self,
        session: Session,
        chat: ChatState,
        token: TokenState,
        preferences: PreferencesState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._chat, self._token = session, chat, token
        self._preferences = preferences
        self._request = Latest(session.client, self)
        self._known: list[tuple[tuple[object, ...], FeaturesFound]] = []
        self._failed: tuple[object, ...] | None = None
        self._wanted: tuple[object, ...] | None = None
        self.problem = ""

    @property
    def folder(self) -> str:
        """The folder of the autoencoder; "" for none."""
        return self._preferences.value.autoencoder or ""

    @property
    def title(self) -> str:
        """The folder's name with that of the folder around it."""
        return "/".join(Path(self.folder).parts[-2:]) if self.folder else ""

    @property
    def running(self) -> bool:
        return self._request.running

    def use(self, folder: str) -> None:
        """Show the features of another autoencoder; "" for none."""
        self._forget()
        self._preferences.update(autoencoder=folder or None)
        self.changed.emit()
        self.want()

    def want(self) -> None:
        """Request the features of the word that is looked at, if they are not known."""
        text = self._text(self._token.word) if self.folder else None
        if text is None or self._session.model is None or self._chat.busy:
            return
        key = self._key(text[0])
        if self._found(key) is not None or key in (self._failed, self._wanted):
            return
        self.problem, self._wanted = "", key

        def then(found: FeaturesFound) -> None:
            self._known = [*self._known, (key, found)][-MOST:]
            self._wanted = None
            self.changed.emit()

        def failed(reply: Failed) -> None:
            self._failed, self._wanted = key, None
            self.problem = reply.message
            self.changed.emit()

        self._request.send(FindFeatures(0, self.folder, text[0]), then, failed)
        self.changed.emit()

    def cancel(self) -> None:
        """Request nothing."""
        self._request.forget()
        self._wanted = None

    @property
    def found(self) -> FeaturesFound | None:
        """The features of the text that the word is of, if they are known."""
        return self._known_text[0]

    @property
    def features(self) -> Sequence[ActiveFeature]:
        """The strongest features of the word, if they are known."""
        found, at = self._known_text
        if found is None or not -len(found.features) <= at < len(found.features):
            return ()
        return found.features[at]

    @property
    def _known_text(self) -> tuple[FeaturesFound | None, int]:
        """The features of the word's text, if known, and which of its tokens the word is."""
        text = self._text(self._token.word) if self.folder else None
        return (None, 0) if text is None else (self._found(self._key(text[0])), text[1])

    def _text(self, word: Word | None) -> Text | None:
        """The chat up to the end of a word's message."""
        question = self._token.questions_of_chat.of(word)
        if word is None or question is None:
            return None
        talk, request = question
        if any(message.pictures for message in talk.path):
            return None
        edits = list(request.edits)
        if request.wanted is None:
            text = ComparedText(request.messages, None, edits, tools=request.tools)
            return (text, request.at) if request.at is not None else None
        ids = list(talk.tokens.ids)
        if request.prefix_tokens or word.index == 0:
            whole = ComparedText(
                request.messages, None, edits, talk.message.text, ids, request.tools
            )
            return whole, word.index - len(ids)
        return None

    def _key(self, text: ComparedText) -> tuple[object, ...]:
        return self.folder, self._session.model_name, msgspec.json.encode(text)

    def _found(self, key: tuple[object, ...]) -> FeaturesFound | None:
        return next((found for known, found in reversed(self._known) if known == key), None)

    def _forget(self) -> None:
        self.cancel()
        self._known, self._failed, self.problem = [], None, ""
