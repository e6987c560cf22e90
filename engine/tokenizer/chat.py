"""Chats as the text a model was trained on, by the template its file carries."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from time import monotonic
from typing import Literal

from engine.errors import TemplateError, TemplateTooSlow
from engine.gguf.metadata import Metadata
from engine.tokenizer.renderer import RENDERER
from engine.tokenizer.tokenizer import Tokenizer

Message = Mapping[str, object]
Source = Literal["file", "chatml", "none"]

KEY = "tokenizer.chat_template"
CHATML = ("<|im_start|>", "<|im_end|>")

SLOW_SECONDS = 10.0
"""A template that took too long fails at once for so long: a chat needs it rendered many times."""
NAMED = {
    "rwkv-world": "{% for m in messages %}{{ m.role|capitalize }}: {{ m.content|trim }}\n\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
}
"""Templates that early files give by llama.cpp's name alone."""
REASONING = ("reasoning_content", "thinking", "reasoning")
ROLES = ("system", "user", "assistant", "tool")

_MARK = "\u2055system\u2055"


class ChatTemplate:
    """How a chat becomes a prompt.

    `source` is "file" for the file's own template, "chatml" where it has none but the tokens of
    ChatML, "none" for a base model, which completes plain text. `names` are the file's further
    templates.
    """

    def __init__(
        self,
        source: Source,
        text: str = "",
        bos: str = "",
        eos: str = "",
        names: Sequence[str] = (),
    ) -> None:
        self.source, self.text, self.names = source, text, tuple(names)
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._only_parts: dict[str, bool] = {}
        self._slow: TemplateTooSlow | None = None
        self.tried_again = 0.0  # the moment before which it is not rendered once more

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        **variables: object,
    ) -> str:
        """The prompt for `messages` (`role`, `content`, and what else the template knows).

        `variables` reach the template, `tools` and `enable_thinking` for instance; what was thought
        before a message stands in its `reasoning_content`. A system
        message goes in front of the next one where the template has no place for it, and a text
        becomes a list of one part where the template prints nothing but parts. Without a
        template the contents are joined. TemplateError when the template fails or refuses.
        """
        if self.source == "none":
            return "".join(str(message.get("content", "")) for message in messages)
        if self.source == "chatml":
            return _chatml(messages, add_generation_prompt)
        messages = [_completed(message) for message in messages]
        if len(messages) > 1 and messages[0].get("role") == "system" and not self._takes_system:
            messages = _without_system(messages)
        return self._render(self._formed(messages), add_generation_prompt, variables)

    def _formed(self, messages: Sequence[Message]) -> list[Message]:
        """Texts as lists of one part, for roles where the template prints nothing else."""
        return [
            {**m, "content": _part(m["content"])}
            if isinstance(m.get("content"), str) and self._takes_only_parts(str(m.get("role")))
            else m
            for m in messages
        ]

    def _takes_only_parts(self, role: str) -> bool:
        if role not in ROLES:
            return False
        if role not in self._only_parts:
            text, part = (self._prints(role, content) for content in (_MARK, _part(_MARK)))
            self._only_parts[role] = part and not text
        return self._only_parts[role]

    def _prints(self, role: str, content: object) -> bool:
        """Tried where a message of that role may stand."""
        turns: list[Message] = [{"role": role, "content": content}]
        if role != "user":
            question = self._formed([{"role": "user", "content": "?"}])
            turns = [*turns, *question] if role == "system" else [*question, *turns]
        try:
            text = self._render(turns, True, {})
        except TemplateError:
            return False
        return _MARK in text and "'type'" not in text

    def _render(
        self, messages: Sequence[Message], prompt: bool, variables: Mapping[str, object]
    ) -> str:
        chat = {"messages": list(messages), "add_generation_prompt": prompt}
        if self._slow is not None and monotonic() < self.tried_again:
            raise self._slow
        try:
            return RENDERER.render(self.text, {**self._tokens, **variables, **chat})
        except TemplateTooSlow as error:
            self._slow, self.tried_again = error, monotonic() + SLOW_SECONDS
            raise

    @cached_property
    def _takes_system(self) -> bool:
        # Templates without a place for it raise, or leave it out without a word.
        return self._prints("system", _MARK) or self._takes_only_parts("system")


def load_chat_template(meta: Metadata, tokenizer: Tokenizer, name: str = "") -> ChatTemplate:
    """The template of a file, or its further one of that `name`; TemplateError if it has none."""
    prefix = f"{KEY}."
    names = sorted(key.removeprefix(prefix) for key in meta if key.startswith(prefix))
    if name and name not in names:
        listed = f"there are {', '.join(names)}" if names else "the file has only its own"
        raise TemplateError(f"no chat template {name!r}; {listed}")
    text = meta.get(prefix + name if name else KEY, str, "")
    text = NAMED.get(text, text)
    if text:
        bos, eos = (
            "" if token is None else tokenizer.text(token)
            for token in (tokenizer.bos, tokenizer.eos)
        )
        RENDERER.start()  # ready by the time of the first message
        return ChatTemplate("file", text, bos, eos, names)
    if all(tokenizer.id(token) is not None for token in CHATML):
        return ChatTemplate("chatml", names=names)
    return ChatTemplate("none", names=names)


def _chatml(messages: Sequence[Message], add_generation_prompt: bool) -> str:
    start, end = CHATML
    turns = [f"{start}{m.get('role', '')}\n{m.get('content', '')}{end}\n" for m in messages]
    return "".join(turns) + (f"{start}assistant\n" if add_generation_prompt else "")


def _completed(message: Message) -> Message:
    """A call of a tool may come without a text, which few templates reckon with, and what was
    thought is known under several names.
    """
    if "tool_calls" in message:
        message = {"content": "", **message}
    thought = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if thought is None:
        return message
    return {"thinking": thought, **message, "reasoning_content": thought}


def _part(text: object) -> list[Message]:
    return [{"type": "text", "text": text}]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    system, following, *rest = messages
    first, second = system.get("content"), following.get("content")
    content: object
    if isinstance(first, str) and isinstance(second, str):
        content = f"{first}\n{second}"
    elif isinstance(first, str) and isinstance(second, list):
        content = [{"type": "text", "text": f"{first}\n"}, *second]
    else:
        return list(messages)
    return [{**following, "content": content}, *rest]
