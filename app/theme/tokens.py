"""Every colour and measure of the window, in one place."""

from dataclasses import dataclass
from functools import lru_cache

# Lengths in device-independent pixels.
GRID = 8
PADDING = 16
ROW = 28
ROW_COMPACT = 22
RADIUS_CARD = 8
RADIUS_CONTROL = 4
TOP_LINE = 48
LEAST_TALK, LEAST_INSIDE = 560, 416  # widths of the chat and of the inspector beside it
NARROW = 1024  # below this width there is one pane at a time: the two and the rail need it
LISTED = 1440  # beside the inspector the chats are a list from this width on, below it icons
CROWDED_TALK = 360  # least width of the chat where a person wants the list without room for it
CHATS_WIDTH = 208
INSPECTOR_SHARE, INSIDE_SHARE = 58, 75  # per cent of the window beside the talk
BODY_PX, CHAT_PX, SMALL_PX, TITLE_PX = 13, 15, 12, 20
CHAT_COLUMN = 72  # characters

# A device's colour by its place (Okabe and Ito's palette), distinct for everyone; host is grey.
DEVICES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
HOST = "#8A8F99"


@dataclass(frozen=True)
class ThemeTokens:
    """Colours as `#RRGGBB`. `faint` and `divider` are for lines and marks, never for text.

    `attention` marks the words that others looked at; no other meaning has its hue.
    `accent` is for surfaces and lines; text of its kind is `link`, or `accent_text` upon it.
    """

    name: str
    dark: bool
    canvas: str
    panel: str
    raised: str
    text: str
    quiet: str
    faint: str
    divider: str
    accent: str
    accent_text: str
    link: str
    selection: str
    good: str
    warn: str
    bad: str
    attention: str
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    code_comment: str

    def on(self, tone: str, share: float) -> str:
        """`tone` laid over the panel with that opacity."""
        return mix(getattr(self, tone), self.panel, share)


LIGHT = ThemeTokens(
    name="light",
    dark=False,
    canvas="#FBFAF8",
    panel="#FFFFFF",
    raised="#F3F1ED",
    text="#1D1F24",
    quiet="#5B606B",
    faint="#A3A8B3",
    divider="#E4E1DB",
    accent="#2F6FDE",
    accent_text="#FFFFFF",
    link="#2459B8",
    selection="#E1EAFA",
    good="#2D7A4D",
    warn="#9A5B00",
    bad="#C0392B",
    attention="#7440C4",
    code_keyword="#8A3FA0",
    code_string="#276B43",
    code_number="#8F5500",
    code_name="#2459B8",
    code_comment="#5B606B",
)

DARK = ThemeTokens(
    name="dark",
    dark=True,
    canvas="#16181D",
    panel="#1C1F26",
    raised="#252932",
    text="#E8EAEE",
    quiet="#A4ABB8",
    faint="#5D6470",
    divider="#2E333D",
    accent="#6EA0FF",
    accent_text="#0F1218",
    link="#8DB4FF",
    selection="#2A3852",
    good="#6CC893",
    warn="#F0B35A",
    bad="#FF7B6E",
    attention="#D08CFF",
    code_keyword="#C99BEA",
    code_string="#6CC893",
    code_number="#F0B35A",
    code_name="#8DB4FF",
    code_comment="#A4ABB8",
)

CONTRAST = ThemeTokens(
    name="contrast",
    dark=True,
    canvas="#000000",
    panel="#000000",
    raised="#1A1A1A",
    text="#FFFFFF",
    quiet="#E0E0E0",
    faint="#9A9A9A",
    divider="#9A9A9A",
    accent="#FFD54A",
    accent_text="#000000",
    link="#FFD54A",
    selection="#3A3A00",
    good="#7CFFB0",
    warn="#FFC14D",
    bad="#FF9A8F",
    attention="#D9A8FF",
    code_keyword="#E5B8FF",
    code_string="#7CFFB0",
    code_number="#FFC14D",
    code_name="#A8C8FF",
    code_comment="#E0E0E0",
)

THEMES = {tokens.name: tokens for tokens in (LIGHT, DARK, CONTRAST)}


@lru_cache(maxsize=4096)  # hundreds of marks of a plot have few colours
def mix(top: str, under: str, share: float) -> str:
    """`top` over `under`, `share` from 0 (all under) to 1."""
    pairs = zip(_channels(top), _channels(under), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02X}" for a, b in pairs)


def contrast(a: str, b: str) -> float:
    """The ratio of WCAG 2, from 1 to 21."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=4096)  # requested at each word that is painted
def readable(under: str) -> str:
    """Black or white, whichever reads better on it; always 4.5:1 or more."""
    return max(("#000000", "#FFFFFF"), key=lambda ink: contrast(ink, under))


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
