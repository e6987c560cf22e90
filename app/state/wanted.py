"""The model to open, from a file or a server; and whether it can be."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from app import names
from app.client import EngineClient, Latest
from app.headers import check_model
from app.language import decimal
from app.remote.connection import Connection, OpenServer, ProbeServer, address_of
from app.work import Work
from engine.protocol import Load, Loaded, Request
from engine.settings import EngineOptions


@dataclass(frozen=True)
class Wanted:
    """A model's file and how it is opened, or the model of a server and how that is reached."""

    path: Path
    options: EngineOptions = EngineOptions()
    connection: Connection | None = None

    @property
    def request(self) -> Request[Loaded]:
        """The request that opens it."""
        address = address_of(self.path)
        if self.connection is not None and address is not None:
            return OpenServer(0, self.connection, address.model, str(self.path))
        return Load(0, str(self.path), self.options)

    def check(
        self,
        client: EngineClient,
        parent: QObject,
        good: Callable[["Wanted"], None],
        bad: Callable[[str], None],
    ) -> Callable[[], object]:
        """Check that the file's header is valid, or that the server responds; returns what ends
        that.
        """
        if self.connection is None:
            work = Work(check_model, self.path).then(lambda _: good(self))
            return work.fail(bad).start(parent).cancel
        latest = Latest(client)
        probe = ProbeServer(0, self.connection)
        latest.send(probe, lambda _: good(self), lambda failed: bad(failed.message))
        return latest.forget


def name_of(path: Path | None) -> str:
    """A model by its file's name without the ending, or by its name and its server's."""
    if path is None:
        return ""
    address = address_of(path)
    return address.title if address is not None else names.stem(path.name)


def title_of(path: Path | None) -> str:
    """Return the title to display."""
    is_file = path is not None and address_of(path) is None
    return names.title(path.name) if is_file and path is not None else name_of(path)


def adapter_title(adapter: str) -> str:
    """An adapter's file as people read it."""
    return title_of(Path(adapter))


def scaled(adapter: str, scale: float) -> str:
    """An adapter's file as people read it, with its scale where it is not 1."""
    name = adapter_title(adapter)
    return name if scale == 1 else f"{name} × {decimal(f'{scale:g}')}"
