"""Rounds of an answer: its calls are made, their results kept, and the model answers again."""

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from app.state.session import Session
from app.state.talk.answer import Answer
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Message, Picture
from app.state.talk.tokens import Tokens
from app.state.tools.tools import Calls, ToolsState
from app.tools.calling import MOST_ROUNDS, ToolUse, stopped
from app.tools.results import LEFT_OUT, bounded, most_tokens
from app.tools.tool import ToolResult
from engine.errors import CutawayError


class ToolRounds:
    """Rounds of all answers under way."""

    def __init__(self, store: ChatStore, session: Session, tools: ToolsState) -> None:
        self._store, self._session, self.tools = store, session, tools
        self._running: dict[int, Calls] = {}

    def prepare(self, answer: Answer) -> bool:
        """True once the tools of an answer are known."""
        names = answer.tools if self.number(answer) < MOST_ROUNDS else ()
        return not names or self.tools.prepare(answer.message.id, names)

    def run(
        self, answer: Answer, changed: Callable[[Answer], None], done: Callable[[], None]
    ) -> None:
        """Make the calls of an answer; `done` is called once all have ended."""
        message = answer.message

        def show() -> None:
            message.calls = tuple(calls.uses)
            changed(answer)

        def end() -> None:
            self._running.pop(message.id, None)
            show()
            done()

        first = answer.prompt_messages[0]
        documents = [document for m in answer.prompt_messages for document in m.documents]
        keep = partial(self._keep, answer)
        # A chat's number may come again once it is deleted, its first question's time does not.
        chat = (message.chat, first.created)
        calls = Calls(chat, list(message.calls), {}, documents, show, keep, end)
        self._running[message.id] = calls
        self.tools.run(message.id, calls)

    def stop(self, answer: Answer) -> bool:
        """End the calls of an answer at once; False where none runs."""
        calls = self._running.get(answer.message.id)
        if calls is not None:
            self.tools.stop(calls.uses)
        return calls is not None

    def end(self, answer: Answer) -> None:
        """The answer is over: what it had begun to call is stopped."""
        self.tools.forget(answer.message.id)
        answer.message.calls = tuple(
            use if use.ended else stopped(use) for use in answer.message.calls
        )

    def next(self, before: Answer) -> Answer:
        """The answer after the calls of another one, in the store and in the tree. Raises
        StoreError; then nothing has changed.
        """
        above = before.message
        message = Message(0, above.chat, above.id, "assistant", created=time.time())
        message.model, message.edits = above.model, above.edits
        self._store.add(message)
        before.tree.add(message)
        answer = Answer(message, Tokens(), before.tree, by_ids=False, edits=before.edits)
        answer.tools = before.tools
        return answer

    def number(self, answer: Answer) -> int:
        """How many answers with calls are directly above one."""
        count = 0
        for message in reversed(answer.prompt_messages):
            if not message.calls:
                break
            count += 1
        return count

    def _keep(self, answer: Answer, use: ToolUse, result: ToolResult) -> ToolUse:
        """A use with its result within bounds, and its pictures as those of the message."""
        model = self._session.model
        sees = model is not None and model.vision is not None
        texts, hashes = [result.text], []
        for number, data in enumerate(result.pictures, 1):
            try:
                if not sees:
                    texts.append(LEFT_OUT)
                    continue
                name = f"{use.name} {number}"
                hashes.append(self._store.pictures.keep(data, name))
                answer.message.pictures += (Picture(hashes[-1], name),)
            except (CutawayError, StoreError) as error:
                texts.append(f"[picture left out: {error}]")
        most = most_tokens(model.n_ctx if model is not None else 0)
        return replace(use, result=bounded("\n".join(texts), most), pictures=hashes)
