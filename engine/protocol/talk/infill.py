"""The text around a place that is to be filled in."""

import msgspec


class Snippet(msgspec.Struct, frozen=True):
    """Text of another file, with its name."""

    text: str
    name: str = ""


class LineLimits(msgspec.Struct, frozen=True):
    """Where an answer of lines ends: before a line with less than `indent` blanks in front, and
    with the first that ends `seconds` after its beginning; 0 is no limit.
    """

    indent: int = 0
    seconds: float = 0.0


class Infill(msgspec.Struct, frozen=True):
    """A place in a text: the answer is what stands between `prefix` and `suffix`. `line` is more of
    the prefix, tokenised by itself, as editors send the line that is being written.

    With `window` they are cut to so many tokens, three quarters of them for the prefix, and
    `snippets` of other files fill the rest of the context; the text is then one of a repository's
    files, if the model knows marks for these. Without it they are read whole. `suffix_first` has
    the suffix read before the prefix.
    """

    prefix: str = ""
    suffix: str = ""
    line: str = ""
    snippets: list[Snippet] = []
    window: int | None = None
    suffix_first: bool = False

    @property
    def text(self) -> str:
        """Return all of its text."""
        return "".join((*(one.text for one in self.snippets), self.prefix, self.line, self.suffix))
