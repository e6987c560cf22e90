"""The messages of one chat as a tree, and the path through it that is shown."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.state.talk.message import Message


class Branch(NamedTuple):
    """Keeps a message that was removed, `first`, and all below it; `in_path` is True if it was the
    chosen child of its parent.
    """

    first: Message
    in_path: bool
    messages: dict[int, Message]
    children: dict[int | None, list[int]]
    chosen: dict[int | None, int]


class Tree:
    """All messages of a chat. Branches are siblings; of each node one child is chosen.

    The chat itself is the node None. Where nothing was chosen it is the newest child.
    """

    def __init__(
        self, messages: Iterable[Message] = (), chosen: Mapping[int | None, int] | None = None
    ) -> None:
        self.messages: dict[int, Message] = {}
        self._children: dict[int | None, list[int]] = defaultdict(list)
        self._chosen = dict(chosen or {})
        for message in messages:
            self._insert(message)

    def add(self, message: Message) -> None:
        """A new leaf, which becomes the chosen one."""
        self._insert(message)
        self._chosen[message.parent] = message.id

    def beside(self, message: Message) -> Message | None:
        """The sibling that takes its place in the path where it is removed: the next one, or the
        one before.
        """
        siblings = self.siblings(message)
        place = siblings.index(message)
        after = siblings[place + 1 : place + 2] or siblings[max(0, place - 1) : place]
        return after[0] if after else None

    def remove(self, message: Message) -> Branch:
        """Take out a message with all below it; the one beside it becomes the chosen one."""
        in_path = self.chosen(message.parent) is message
        if in_path:
            following = self.beside(message)
            self._chosen.pop(message.parent, None)
            if following is not None:
                self._chosen[message.parent] = following.id
        self._children[message.parent].remove(message.id)
        below = self._below(message.id)
        return Branch(
            message,
            in_path,
            {n: self.messages.pop(n) for n in below},
            {n: self._children.pop(n) for n in below if n in self._children},
            {n: self._chosen.pop(n) for n in below if n in self._chosen},
        )

    def put_back(self, branch: Branch) -> None:
        """Undo `remove`."""
        first = branch.first
        self.messages |= branch.messages
        self._children |= branch.children
        self._chosen |= branch.chosen
        self._children[first.parent].append(first.id)
        if branch.in_path:
            self._chosen[first.parent] = first.id

    def show(self, message: Message) -> None:
        """Choose the path that goes through a message."""
        for above in self.up_to(message):
            self.choose(above)

    def choose(self, message: Message) -> None:
        """Make a message the chosen child of its parent."""
        self._chosen[message.parent] = message.id

    def chosen(self, parent: int | None) -> Message | None:
        """The child of `parent` that the path takes."""
        children = self._children.get(parent)
        if not children:
            return None
        if len(children) == 1:
            return self.messages[children[0]]
        wanted = self._chosen.get(parent)
        return self.messages[wanted if wanted in children else children[-1]]

    def siblings(self, message: Message) -> list[Message]:
        """The message and what else its parent has, in order of creation."""
        return [self.messages[n] for n in self._children[message.parent]]

    def has_children(self, message: Message) -> bool:
        """Return whether other messages follow this one."""
        return bool(self._children.get(message.id))

    def path(self) -> list[Message]:
        """From the first message down the chosen children; `place` and `siblings` are set."""
        path: list[Message] = []
        parent = None
        while children := self._children.get(parent):
            place = len(children) - 1
            if place and (wanted := self._chosen.get(parent)) in children:
                place = children.index(wanted)
            parent = children[place]
            message = self.messages[parent]
            message.place, message.siblings = place, len(children)
            path.append(message)
        return path

    def up_to(self, message: Message | None) -> list[Message]:
        """The messages from the first to this one."""
        path = []
        while message is not None:
            path.append(message)
            message = None if message.parent is None else self.messages[message.parent]
        return path[::-1]

    def _insert(self, message: Message) -> None:
        self.messages[message.id] = message
        self._children[message.parent].append(message.id)

    def _below(self, root: int) -> list[int]:
        found = [root]
        for n in found:
            found += self._children.get(n, ())
        return found
