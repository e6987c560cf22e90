"""Pictures of the window, in every theme and size."""

from collections.abc import Callable
from pathlib import Path

from tests.app.end_to_end.person import Person

SIZES = ((1600, 1000), (1100, 700))
THEMES = ("light", "dark")


def take(person: Person, folder: Path, scene: str, arrange: Callable[[], object] = str) -> None:
    """The window as it is, in every theme and size; `arrange` is done again after each change."""
    for theme in THEMES:
        person.bench.preferences.update(theme=theme)
        for width, height in SIZES:
            person.window.resize(width, height)
            person.look(200)
            arrange()
            picture = person.window.grab()
            assert picture.save(str(folder / f"real-{scene}-{width}x{height}-{theme}.png"))
            assert (picture.width(), picture.height()) == (width, height)
    person.bench.preferences.update(theme=THEMES[0])
    person.window.resize(*SIZES[0])
