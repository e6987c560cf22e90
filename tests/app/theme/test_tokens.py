"""Contrast as WCAG 2 defines it, in every theme."""

import math

import pytest

from app.theme.devices import component_colour
from app.theme.tokens import DEVICES, HOST, THEMES, ThemeTokens, contrast, mix, readable

LEAST = 4.5
INKS = ("text", "quiet", "link", "good", "warn", "bad", "attention")
MEANINGS = ("accent", "good", "warn", "bad")
APART = 25  # CIE76: colours of such a distance are told apart at a glance
CODE = ("code_keyword", "code_string", "code_number", "code_name", "code_comment")


@pytest.fixture(params=sorted(THEMES))
def tokens(request: pytest.FixtureRequest) -> ThemeTokens:
    return THEMES[request.param]


def test_contrast_is_wcags() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)
    assert contrast("#FF0000", "#FF0000") == 1


@pytest.mark.parametrize("ink", [*INKS, *CODE])
@pytest.mark.parametrize("under", ["canvas", "panel", "raised"])
def test_text_can_be_read(tokens: ThemeTokens, ink: str, under: str) -> None:
    assert contrast(getattr(tokens, ink), getattr(tokens, under)) >= LEAST


def test_chosen_rows_and_buttons_can_be_read(tokens: ThemeTokens) -> None:
    assert contrast(tokens.text, tokens.selection) >= LEAST
    assert contrast(tokens.quiet, tokens.selection) >= LEAST
    assert contrast(tokens.accent_text, tokens.accent) >= LEAST


@pytest.mark.parametrize("tone", ["accent", "good", "warn", "bad"])
def test_banners_can_be_read(tokens: ThemeTokens, tone: str) -> None:
    assert contrast(tokens.text, tokens.on(tone, 0.08)) >= LEAST


@pytest.mark.parametrize("colour", [*DEVICES, HOST])
@pytest.mark.parametrize("share", [1.0, 0.65, 0.55, 0.4])
def test_words_on_bars_can_be_read(tokens: ThemeTokens, colour: str, share: float) -> None:
    under = mix(colour, tokens.panel, share)
    assert contrast(readable(under), under) >= LEAST


@pytest.mark.parametrize("meaning", MEANINGS)
def test_attention_has_a_colour_of_its_own(tokens: ThemeTokens, meaning: str) -> None:
    """Also where both are laid over the canvas, as probabilities and attention are over words."""
    assert distance(tokens.attention, getattr(tokens, meaning)) >= APART
    strong = [mix(one, tokens.canvas, 0.4) for one in (tokens.attention, getattr(tokens, meaning))]
    assert distance(*strong) >= APART / 2


def test_words_that_are_lit_can_be_read(tokens: ThemeTokens) -> None:
    for share in (0.1, 0.42):
        assert contrast(tokens.text, mix(tokens.attention, tokens.canvas, share)) >= LEAST


def test_distance_is_cie76() -> None:
    assert distance("#FFFFFF", "#000000") == pytest.approx(100, abs=0.01)
    assert distance("#FF0000", "#0000FF") == pytest.approx(176.3, abs=0.1)


def distance(a: str, b: str) -> float:
    """Between two colours in CIE Lab, under D65."""
    return math.dist(_lab(a), _lab(b))


def _lab(colour: str) -> tuple[float, float, float]:
    r, g, b = (_linear(int(colour[n : n + 2], 16) / 255) for n in (1, 3, 5))
    x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
    y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b
    z = (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883
    fx, fy, fz = (
        v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)
    )
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def _cube_root(value: float) -> float:
    return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def test_mix_goes_from_one_to_the_other() -> None:
    assert mix("#FF0000", "#0000FF", 1) == "#FF0000"
    assert mix("#FF0000", "#0000FF", 0) == "#0000FF"
    assert mix("#FFFFFF", "#000000", 0.5) == "#808080"


def test_components_of_a_device_differ() -> None:
    shades = {component_colour("some:0", name) for name in ("weights", "cache", "graph", "vision")}
    assert len(shades) == 4
