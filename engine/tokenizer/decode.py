"""Ids back to text, a token at a time."""

import codecs
from collections.abc import Callable


class StreamDecoder:
    """Text of tokens as they come; a character is given out once all its bytes are there.

    Bytes that cannot become a character any more are shown as U+FFFD.
    """

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that `token` completes; TokenizerError for an id outside the vocabulary."""
        return self._utf8.decode(self._piece(token))

    def flush(self) -> str:
        """Return the rest of an incomplete character; the decoder can then start afresh."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
