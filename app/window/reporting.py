"""Saves what a view shows, to attach it to an issue: Markdown, its picture and its numbers."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import QBuffer, QByteArray
from PySide6.QtGui import QImage, QImageWriter

from app.files import write_named
from app.language import tr
from app.report.contents import plain
from app.state.workbench import Workbench
from app.version import version
from app.widgets.lists.rows import ReportTable, ViewReport
from app.words import UNKNOWN
from engine.errors import CutawayError
from engine.protocol import Sampling
from engine.settings import AUTOMATIC, OPTIONS, EngineOptions

MOST_ROWS = 40  # of a table in Markdown; JSON has all
LONGEST = 2000  # characters of a prompt
Facts = Mapping[str, str]


def facts_of(bench: Workbench, title: str, selected: str, now: datetime) -> Facts:
    """Return the facts of a report: view, model, settings and selection, as far as known."""
    session, chat = bench.session, bench.chat
    model, path = session.model, chat.path
    word = bench.selection.now.token
    row = chat.row_of(word[0]) if word is not None else None
    path = path if row is None else path[: row + 1]
    question = next((m.text for m in reversed(path) if m.role == "user"), "")
    seed = next((m.seed for m in reversed(path) if m.seed is not None), None)
    device = (model.device_name or model.device) if model is not None else ""
    return {
        tr("View"): title,
        tr("When"): f"{now:%Y-%m-%d %H:%M}",
        tr("Program"): tr("Cutaway {version}", version=version()),
        tr("Model"): session.model_title or UNKNOWN,
        tr("File"): session.path.name if session.path is not None else UNKNOWN,
        tr("Device"): device or UNKNOWN,
        tr("Settings"): _settings(session.options) or tr("usual"),
        tr("Sampling"): _sampling(chat.details.sampling),
        tr("Seed"): UNKNOWN if seed is None else str(seed),
        tr("Prompt"): question if len(question) <= LONGEST else f"{question[:LONGEST]}…",
        tr("Selected"): selected or UNKNOWN,
    }


def write_report(path: Path, facts: Facts, report: ViewReport, picture: QImage) -> list[Path]:
    """Three files of one name, .md, .png and .json, or none. Returns them.

    Raises CutawayError where one cannot be written, or where a picture or data of that name are
    there already that belong to no report.
    """
    path = path.with_suffix(".md")
    image, data = path.with_suffix(".png"), path.with_suffix(".json")
    beside = [other for other in (image, data) if other.exists()]
    if beside and not path.exists():
        raise CutawayError(
            tr("{beside} already exists; choose another name for the report.", beside=beside[0])
        )
    contents = {
        data: as_json(facts, report),
        image: _png(picture),
        path: as_markdown(facts, report, image.name, data.name).encode(),
    }
    new = [one for one in contents if not one.exists()]
    try:
        for one, content in contents.items():
            write_named(one, content)
    except BaseException:
        for one in new:
            with suppress(OSError):
                one.unlink(missing_ok=True)
        raise
    return [path, image, data]


def as_markdown(facts: Facts, report: ViewReport, picture: str, data: str) -> str:
    """Names the picture and the data beside it; long tables are cut short."""
    lines = [
        tr(
            "# {facts} of {facts2}",
            facts=plain(facts[tr("View")]),
            facts2=plain(facts[tr("Model")]),
        ),
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {name} | {plain(text)} |" for name, text in facts.items()]
    for words in report.words:
        lines += ["", *(plain(line) for line in words.splitlines())]
    lines += [
        "",
        tr("![Picture of the view]({picture})", picture=picture),
        "",
        tr("All numbers are in [{data}]({data}).", data=data),
    ]
    for table in report.tables:
        lines += _table(table, data)
    return "\n".join(lines) + "\n"


def as_json(facts: Facts, report: ViewReport) -> bytes:
    """Everything, tables whole."""
    tables = [
        {"title": table.title, "columns": list(table.columns), "rows": table.rows()}
        for table in report.tables
    ]
    made = {"facts": facts, "words": report.words, "tables": tables, "data": report.data()}
    return json.dumps(msgspec.to_builtins(made), indent=1).encode()


def _table(table: ReportTable, data: str) -> list[str]:
    rows = table.rows()
    lines = ["", f"## {plain(table.title)}", ""]
    if not rows:
        return [*lines, tr("Nothing.")]
    lines += [_line(table.columns), "|" + "---|" * len(table.columns)]
    lines += [_line(row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines += [
            "",
            tr("{rows} more rows are in [{data}]({data}).", rows=len(rows) - MOST_ROWS, data=data),
        ]
    return lines


def _line(texts: Any) -> str:
    return f"| {' | '.join(plain(text) for text in texts)} |"


def _png(picture: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(picture)
    return bytes(buffer.data().data())


FILES = ("mmproj", "model_draft")
"""Options that are paths, of which the name alone is shown."""


def _settings(options: EngineOptions) -> str:
    """Format options as on the command line; what is usual is left out."""
    usual, flags = EngineOptions(), []
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(usual, field.name):
            shown = Path(value).name if field.name in FILES else value
            if field.name == "lora":
                shown = ",".join(f"{Path(path).name}:{scale:g}" for path, scale in value.items())
            shown = "auto" if value == AUTOMATIC else shown
            flags.append(f"--{OPTIONS[field.name].flag} {shown}")
    return " ".join(flags)


def _sampling(sampling: Sampling) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(sampling).items())
