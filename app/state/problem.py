"""A problem as a banner shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """`text` is one line with the numbers and the next step; `kind` the error's class.

    `action` names the button: "restart", "restart_less", "open", "get", "retry" or "" for none.
    """

    kind: str
    text: str
    action: str = ""
