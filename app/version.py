"""Which version of the program this is."""


def version() -> str:
    """The installed version of the distribution."""
    from importlib import metadata

    try:
        return metadata.version("cutaway")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def changes() -> str:
    """The changelog as Markdown, the newest version first; a line of it is a paragraph or an item,
    as the window shows line breaks.
    """
    from importlib.resources import files

    text = (files("resources") / "changes.md").read_text("utf-8")
    return text.replace("\n  ", " ")


def commit() -> str:
    """Return the commit of this checkout; empty where it is none."""
    import subprocess
    from pathlib import Path

    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return ""
    words = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
