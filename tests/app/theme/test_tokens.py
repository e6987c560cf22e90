"""Contrast as WCAG 2 defines it, in every theme."""

import pytest

from app.theme.devices import component_colour
from app.theme.tokens import DEVICES, HOST, THEMES, ThemeTokens, contrast, mix, readable

LEAST = 4.5
INKS = ("text", "quiet", "link", "good", "warn", "bad")
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


def test_mix_goes_from_one_to_the_other() -> None:
    assert mix("#FF0000", "#0000FF", 1) == "#FF0000"
    assert mix("#FF0000", "#0000FF", 0) == "#0000FF"
    assert mix("#FFFFFF", "#000000", 0.5) == "#808080"


def test_components_of_a_device_differ() -> None:
    shades = {component_colour("some:0", name) for name in ("weights", "cache", "graph", "vision")}
    assert len(shades) == 4
