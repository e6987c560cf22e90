"""The chat that is open: the messages of its active path, and the answer under way."""

from PySide6.QtCore import QObject, Signal

from app.state.message import Message
from engine.protocol import Sampling, TokenInfo


class ChatState(QObject):
    """One chat. Rows are positions in `path`; all changes go through its methods.

    An answer goes on when another chat is opened, and is saved where it belongs.
    """

    path_changed = Signal(int)  # rows from this one on are other messages now (0: another chat)
    message_added = Signal(int)  # row, at the end
    message_changed = Signal(int)  # row; while answering the last, at most once a frame
    tokens_appended = Signal(int, int)  # row, first new index in tokens(row)
    busy_changed = Signal(bool)
    details_changed = Signal()  # title, system prompt, sampling
    draft_changed = Signal(str)  # only when not by set_draft: another chat, or a refused send
    problem = Signal(object)  # Problem of something the person just asked for

    chat_id: int | None
    title: str
    system: str
    sampling: Sampling
    draft: str
    path: list[Message]

    @property
    def busy(self) -> bool:
        """Whether an answer is being written, in this chat or another."""
        ...

    @property
    def answering(self) -> int | None:
        """The row of the answer under way, None if it is not in the path shown."""
        ...

    def open(self, chat_id: int | None) -> None:
        """Show a chat; None is a new one, kept from its first message on."""

    def send(self, text: str) -> bool:
        """Ask; False (with `problem`) where that is not possible now."""
        ...

    def stop(self) -> None: ...
    def regenerate(self, row: int) -> None:
        """Another answer beside the one at `row`, or an answer to the question there."""

    def edit_and_resend(self, row: int, text: str) -> None:
        """A branch: another question with its answer; of an answer, another text."""

    def continue_answer(self, row: int) -> None:
        """Go on where the answer at `row` ended."""

    def branch_from_token(self, row: int, index: int, alternative: int) -> None:
        """A sibling that takes `tokens(row)[index].top[alternative]` there and goes on."""

    def choose_sibling(self, row: int, step: int) -> None:
        """Show the next (+1) or the previous (-1) branch at `row`."""

    def delete_message(self, row: int) -> None:
        """Remove the message with all that follows it; a sibling takes its place."""

    def tokens(self, row: int) -> "Tokens":
        """The tokens of the answer at `row`, read when first asked for."""
        ...

    def set_draft(self, text: str) -> None: ...
    def set_system(self, text: str) -> None: ...
    def set_sampling(self, sampling: Sampling) -> None: ...
    def set_title(self, title: str) -> None: ...


class Tokens:
    """Tokens with their log-probabilities; `end(i)` is where token i ends in the message's text."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> TokenInfo: ...
    def start(self, index: int) -> int: ...
    def end(self, index: int) -> int: ...
    def at(self, position: int) -> int | None:
        """The token that covers a position of the text."""
        ...
