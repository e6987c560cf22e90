"""Fields at the start of every frame of an answer, for chats and plain completions."""

import secrets
from dataclasses import dataclass, field
from time import time
from typing import Any, ClassVar

from app.serve.told import FINGERPRINT


@dataclass
class FramesTelling:
    """How one request is answered: what every frame has, and what was asked for."""

    prefix: ClassVar[str]

    model: str
    top: int | None  # alternatives a token; None: no log-probabilities
    usage: bool
    code: str = field(default_factory=lambda: secrets.token_hex(12), init=False)
    created: int = field(default_factory=lambda: int(time()), init=False)

    @property
    def head(self) -> dict[str, Any]:
        """Return the fields that every frame begins with."""
        return {
            "id": self.prefix + self.code,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }
