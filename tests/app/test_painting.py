"""What is painted stands on one base, and text on one engine; these numbers may only fall."""

from pathlib import Path

APP = Path(__file__).parents[2] / "app"
MOST_PAINT_EVENTS = 13
MOST_PAINTER_LINES = 5400  # of modules that name QPainter


def modules(word: str) -> dict[str, str]:
    """The modules of the app that hold a word."""
    texts = {str(p.relative_to(APP)): p.read_text("utf-8") for p in APP.rglob("*.py")}
    return {name: text for name, text in texts.items() if word in text}


def test_few_widgets_paint_by_themselves() -> None:
    counts = {name: text.count("def paintEvent") for name, text in modules("paintEvent").items()}
    assert "widgets/plots/chart.py" in counts
    assert sum(counts.values()) <= MOST_PAINT_EVENTS, counts


def test_few_modules_hold_a_painter() -> None:
    lines = {name: text.count("\n") for name, text in modules("QPainter").items()}
    assert "widgets/plots/paper.py" in lines
    assert sum(lines.values()) <= MOST_PAINTER_LINES, lines


def test_text_is_laid_out_by_markdown_alone() -> None:
    laid = [*modules("QTextLayout"), *modules("QTextDocument("), *modules("QTextLine")]
    assert laid
    assert all(name.startswith("widgets/markdown/") for name in laid), laid


def test_one_camera_zooms_and_moves() -> None:
    wheels = set(modules("def wheelEvent"))
    assert wheels == {"widgets/plots/stage.py", "widgets/markdown/view.py"}  # code scrolls sideways
    assert set(modules("Camera()")) == {"widgets/plots/stage.py"}
