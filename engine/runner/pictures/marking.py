"""How a model's chat template shows pictures, and what a chat with pictures becomes of it.

Templates differ in whether a content may be a list of parts, and in what they print for a picture.
Which it is shows in what they make of a trial. What people typed is never a picture: a marker in
their text is broken before the template sees it.
"""

import secrets
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from engine.errors import TemplateError
from engine.protocol import ChatMessage, PicturePart, TextPart
from engine.tokenizer import ChatTemplate

BREAK = "\uf8f9"
"""A private character inside of what looks like a marker and is none."""
TRIAL = "trial"

Turn = dict[str, Any]


class Marking:
    """The form that a template takes pictures in. `markers` are what templates of this family
    print, `glue` what follows a picture where a template knows of none.
    """

    def __init__(self, template: ChatTemplate, markers: Sequence[str], glue: str) -> None:
        self.template = template
        self.markers = tuple(sorted(markers, key=len, reverse=True))
        self.glue = glue
        self._private = "".join(chr(0xE000 + secrets.randbelow(0x1000)) for _ in range(8))

    @cached_property
    def printed(self) -> str:
        """The text that the template prints for a picture part; empty if it takes no parts. Empty
        where it takes no parts.
        """
        if self.template.source != "file":
            return ""
        texts = []
        for count in range(3):
            parts: list[Turn] = [{"type": "image"}] * count
            parts.append({"type": "text", "text": TRIAL})
            try:
                texts.append(self.template.render([{"role": "user", "content": parts}]))
            except TemplateError:
                return ""
        if any(TRIAL not in text or "'type'" in text for text in texts):
            return ""
        for marker in self.markers:
            counts = [text.count(marker) - texts[0].count(marker) for text in texts]
            if counts == [0, 1, 2]:
                return marker
        return ""

    @property
    def mark(self) -> str:
        """The placeholder of a picture in the rendered text."""
        return self.printed or self._private

    def chunks(self, text: str, n_pictures: int) -> list[str]:
        """The rendered text cut at its pictures: one chunk more than there are pictures.

        Raises `TemplateError` where the template left out or invented some.
        """
        chunks = text.split(self.mark)
        if len(chunks) != n_pictures + 1:
            raise TemplateError(
                f"chat template: it prints {len(chunks) - 1} pictures of {n_pictures};"
                " put each picture into a user message"
            )
        return chunks

    def content(self, message: ChatMessage) -> str | list[Turn]:
        """Return a message's content for the template. Every picture becomes one `mark` in what it
        prints.
        """
        parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content
        if self.printed and message.pictures:
            return [self._part(part) for part in parts]
        return "".join(
            self._private + self.glue if isinstance(part, PicturePart) else self.broken(part.text)
            for part in parts
        )

    def _part(self, part: TextPart | PicturePart) -> Turn:
        if isinstance(part, PicturePart):
            return {"type": "image"}
        return {"type": "text", "text": self.broken(part.text)}

    def broken(self, text: str) -> str:
        """A text of a person with its markers broken, so that they stay text."""
        text = text.replace(BREAK, "").replace(self._private, "")
        for marker in self.markers:
            text = text.replace(marker, f"{marker[0]}{BREAK}{marker[1:]}")
        return text


def mended(text: str) -> str:
    """The text as it was typed."""
    return text.replace(BREAK, "")
