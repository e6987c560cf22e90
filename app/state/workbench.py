"""All state of one window, made and closed in one place."""

from PySide6.QtCore import QObject

from app.client import EngineClient
from app.state.chat import ChatState
from app.state.chats import ChatList
from app.state.downloads import Downloads
from app.state.library import LibraryState
from app.state.log import LogState
from app.state.memory import MemoryState
from app.state.preferences import PreferencesState
from app.state.selection import Selection
from app.state.session import Session


class Workbench(QObject):
    """What views are given. A second window of the program has its own, on the same files."""

    client: EngineClient
    session: Session
    chat: ChatState
    chats: ChatList
    library: LibraryState
    downloads: Downloads
    memory: MemoryState
    preferences: PreferencesState
    selection: Selection
    log: LogState
    notices: list[str]  # one line each, for banners at the start

    def open_model(self, path: str) -> None:
        """Load a model with what was chosen for it before."""

    def close(self) -> None:
        """Save everything; end all jobs, threads and the engine. Harmless when done twice."""
