"""The page that searches for models: the shelf, and a repository whose models are planned."""

from dataclasses import replace

from app.fetch.quants import HeaderPlan, quants
from app.fetch.search import FoundRepo, RepoFile
from app.state.models.downloads import Download
from app.views.models.chooser import DISCOVER
from app.window.main_window import MainWindow
from engine.units import GB

REPO = "some-rather-long-organisation/Model-with-a-Long-Name-Instruct-2507-GGUF"
FILES = (
    *(
        RepoFile(f"m-{k}.gguf", n * 10**9, f"{n:x}" * 64)
        for n, k in enumerate(("Q2_K", "Q4_K_M"), 1)
    ),
    *(RepoFile(f"m-F16-0000{i}-of-00002.gguf", 4 * 10**9, f"{i + 4}" * 64) for i in (1, 2)),
    RepoFile("m-Q1_0.gguf", 1, "f" * 64),
    RepoFile("mmproj-m-F16.gguf", 10**9, "e" * 64),
)
FITS = HeaderPlan(
    *("fits_smaller", 4096, 7 * GB, 8 * GB, "intel:0", 9.4),
    "fits with 4096 tokens of context, 7.0 of 8.0 GB on intel:0, about 9 tokens a second",
)
TOO_BIG = HeaderPlan(
    *("too_big", 512, 10 * GB, 8 * GB, "intel:0", None), "does not fit: 2.0 GB too much on intel:0"
)


def discover(window: MainWindow) -> None:
    """The shelf, with a download under way below it."""
    items = window.bench.downloads.items
    items["org/repo:Q4_0"] = Download("org/repo:Q4_0", "paused", done=10**9, total=3 * 10**9)
    window.sheets.show_chooser()
    window.sheets.chooser.tabs.setCurrentIndex(DISCOVER)
    window.bench.downloads.changed.emit("org/repo:Q4_0")


def found(window: MainWindow) -> None:
    """Results, and one that is open: models that fit, do not fit and cannot be read."""
    state, page = window.bench.discover, window.sheets.chooser.discover
    window.sheets.show_chooser()
    window.sheets.chooser.tabs.setCurrentIndex(DISCOVER)
    state.results = [
        FoundRepo(REPO, "some", 1234567, 0, "2026-03-04T", "apache-2.0", 4 * 10**9),
        FoundRepo("o/closed", "o", 12, 0, "2026-01-01T", "gemma", 27 * 10**9, gated="manual"),
    ]
    rows = quants(REPO, FILES)
    state.rows = [replace(r, plan=TOO_BIG if r.label == "F16" else FITS) for r in rows]
    state.repo, state.selected = state.results[0], rows[1].key
    state.state = state.repo_state = "done"
    page.wanted = REPO
    item = Download(rows[1].name, "running", "download", 10**9, 3 * 10**9, 10**7, 200.0)
    window.bench.downloads.items[item.name] = item
    state.changed.emit()
    window.bench.downloads.changed.emit(item.name)


def watched(window: MainWindow) -> None:
    """Folders below the models on the disk, of which none is there any more."""
    far = "/models/a/rather/long/way/down/to/where/somebody/keeps/those/of/a/whole/group"
    window.bench.preferences.update(watched_folders=[far, "/models/stick"])
    window.sheets.show_chooser()


SCENES = (discover, found, watched)
