"""A rule that is being typed: it counts once the engine has understood it."""

from collections.abc import Callable
from pathlib import Path

from app.client import EngineClient, Latest
from engine.protocol import Failed, Reprice, Repriced
from engine.settings import EngineOptions


class TypedRule:
    """`text` as it was typed, until it counts; `problem` says in a sentence what is wrong with it.

    `told` is called when either has changed.
    """

    def __init__(self, client: EngineClient, told: Callable[[], None]) -> None:
        self.text = self.problem = ""
        self._question, self._told = Latest(client), told

    def ask(
        self,
        text: str,
        path: Path,
        options: EngineOptions,
        understood: Callable[[Repriced], None],
    ) -> None:
        """Ask what `options` with the rule mean; then it counts."""
        self.text, self.problem = text, ""

        def take(answer: Repriced) -> None:
            self.text = ""
            understood(answer)

        self._question.ask(Reprice(0, str(path), options), take, self._refused)

    def forget(self) -> None:
        """The rule as it was, in place of what was typed."""
        self._question.forget()
        self.text = self.problem = ""

    def _refused(self, failed: Failed) -> None:
        self.problem = failed.message
        self._told()
