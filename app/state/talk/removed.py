"""Messages taken out of a chat, as long as they can be put back."""

from dataclasses import dataclass

from app.state.talk.disk.store import ChatStore
from app.state.talk.message import Message
from app.state.talk.tokens import Tokens
from app.state.talk.tree import Tree


@dataclass(frozen=True)
class Removed:
    """A message and all below it, parents first; `chosen` are those that the path went through."""

    messages: list[tuple[Message, Message | None, Tokens]]
    chosen: list[Message]


def take_out(store: ChatStore, tree: Tree, message: Message) -> Removed:
    """Remove a message with all that follows it. Raises StoreError; then nothing has changed."""
    below = tree.below(message)
    gone = Removed(
        [(m, tree.messages.get(m.parent or 0), store.tokens(m)) for m in below],
        [m for m in below if tree.chosen(m.parent) is m],
    )
    store.remove(message, tree.beside(message))
    tree.remove(message)
    return gone


def put_back(store: ChatStore, tree: Tree, gone: Removed) -> None:
    """Undo `take_out`; the messages have new ids. Raises StoreError; then nothing has changed."""
    before = [(message.id, message.parent) for message, _, _ in gone.messages]
    try:
        with store.together():
            store.add_all(gone.messages)
            for message in gone.chosen:
                store.choose(message)
    except BaseException:
        for (message, _, _), (number, parent) in zip(gone.messages, before, strict=True):
            message.id, message.parent = number, parent
        raise
    for message, _, _ in gone.messages:
        tree.add(message)
    for message in gone.chosen:
        tree.choose(message)
