"""All state of one window, made and closed in one place."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os.path import isfile
from pathlib import Path
from typing import Any

import platformdirs
from PySide6.QtCore import QObject

from app.client import EngineClient
from app.engine import Engine
from app.language import tr
from app.remote.connection import ServerAddress, address_of
from app.remote.keys import Keys
from app.state.graph.graph import GraphState
from app.state.lab.causes import Causes
from app.state.lab.runs import RunsState
from app.state.lab.steering import SteeringState
from app.state.lab.verbs import Verbs
from app.state.layers.layers import LayersState
from app.state.log import LogState
from app.state.memory.memory import MemoryState
from app.state.memory.splits import SplitsState
from app.state.models.discover import Discover
from app.state.models.downloads import Downloads
from app.state.models.library import LibraryState
from app.state.models.model import ModelState
from app.state.models.servers import ServersState
from app.state.models.serving import ServingState
from app.state.models.storage import StorageState
from app.state.pair.pair import PairState
from app.state.preferences import PreferencesState, config_folder, preferences_file
from app.state.problem import Problem
from app.state.profile.profile import ProfileState
from app.state.report import ReportState
from app.state.selection import BadLink, Selection, selected_of
from app.state.served import ServedChats
from app.state.session import AT_ONCE, Session
from app.state.talk.chat import ChatState
from app.state.talk.chats import ChatList, ChatRow
from app.state.talk.disk.database import StoreError
from app.state.talk.disk.store import ChatStore
from app.state.talk.embedder import Embedder
from app.state.talk.prompt import NextPrompt
from app.state.tensors.cells import CellsState
from app.state.tensors.comparison import ComparisonState
from app.state.tensors.experts import ExpertsState
from app.state.tensors.probes import ProbesState
from app.state.tensors.results import ResultsState
from app.state.tensors.tensors import TensorsState
from app.state.tensors.texts import TextsState
from app.state.token.features import WordFeatures
from app.state.token.token import TokenState
from app.state.tools.tools import ToolsState
from app.state.trial import TrialState
from app.state.wanted import name_of
from app.work import Work, close_jobs
from engine.prefixes import forget_chat
from engine.protocol import ForgetChat
from engine.settings import KEPT, EngineOptions


def data_folder() -> Path:
    """Where the chats are."""
    return Path(platformdirs.user_data_dir("cutaway", appauthor=False))


class Workbench(QObject):
    """The state that all views share.

    A second instance of the program is a second window with a workbench and an engine of its own,
    on the same files: the database takes several writers, preferences are written field by field,
    and a window that is activated reads what others have changed. So nothing has to listen for
    other instances, and two models can be open side by side.

    `engine` is where models run; others may use it too, so it is not closed with this. `keys` are
    those of servers, which the engine uses.
    `start` makes the engine of a second model: one that is compared, or that embeds documents;
    without it there is none.
    `notices` are one line each, for banners at the start.
    """

    def __init__(
        self,
        engine: Engine,
        config: Path | None = None,
        data: Path | None = None,
        parent: QObject | None = None,
        keys: Keys | None = None,
        start: Callable[[], Engine] | None = None,
    ) -> None:
        super().__init__(parent)
        self.log = LogState(self)
        self.preferences = PreferencesState(preferences_file(config), self)
        self.store = ChatStore((data or data_folder()) / "chats.sqlite")
        self.engine = engine
        self.client = EngineClient(engine, self)
        self.session = Session(self.client, self)
        self.memory = MemoryState(self.client, self)
        self.splits = SplitsState(self.client, self)
        self.layers = LayersState(self.client, self.session, self.open_model, self)
        self.graph = GraphState(self.client, self.session, self)
        self.tools = ToolsState(config or config_folder(), self)
        self.chat = ChatState(self.store, self.session, self.preferences, self, self.tools)
        self.prompt = NextPrompt(self.chat, self.session, self)
        self.profile = ProfileState(self.session, self.chat.live, self)
        self.chats = ChatList(self.store, self)
        self.library = LibraryState(
            lambda: self.preferences.value.recent,
            lambda: self.preferences.models_folder,
            lambda: self.preferences.value.watched_folders,
            self,
        )
        vectors = (data or data_folder()) / "vectors"
        self.embedder = Embedder(lambda: self.library.models, vectors, start, self)
        self.report = ReportState(self)
        self.downloads = Downloads(lambda: self.preferences.models_folder, self)
        self.storage = StorageState(lambda: self.library.models, lambda: self.session.path, self)
        self.storage.finished.connect(self.library.refresh)
        self.discover = Discover(self.client, lambda: self.options_for(""), self)
        keys = keys or Keys()
        self.servers = ServersState(self.client, self.preferences, keys, self)
        self.file = ModelState(self.client, self)
        self.serving = ServingState(engine, self.session, self.file, keys, self)
        for moved in (self.serving.moved, self.serving.changed):
            moved.connect(lambda: self.layers.measuring.follow(self.serving.answers))
        stored = self.store, self.serving, self.session, self.preferences
        self.served = ServedChats(*stored, self)
        self.served.written.connect(self.chats.refresh)
        self.selection = Selection(self)
        self.pair = PairState(
            *(self.chat, self.store, self.preferences, self.open_model, self.options_for),
            *(start, self),
        )
        self._make_inside()
        notices = (self.preferences.notice, self.preferences.folder_problem, self.store.notice)
        self.notices = [notice for notice in notices if notice]
        self._closed = self._opening = False
        self._last_chat = self.preferences.value.last_chat
        self._connect()

    def _make_inside(self) -> None:
        """Make the states of views inside a model, and of changes to it."""
        self.trial = TrialState(self.client, self.session, self.chat, self)
        self.token = TokenState(
            self.session, self.chat, self.selection, self.file, self.preferences, self
        )
        self.features = WordFeatures(self.session, self.chat, self.token, self.preferences, self)
        asks = self.client, self.session, self.chat
        self.verbs = Verbs(*asks, self.token, self.selection, self)
        self.steering = SteeringState(*asks, self.file, self)
        self.runs = RunsState(self.client, self.session, self.file, self.store.runs, self)
        self.causes = Causes(self.session, self.chat, self.token, self.runs, self)
        results = ResultsState(self.client, self.session, self.chat, self.selection, self)
        where = self.memory.layers_on
        self.tensors = TensorsState(self.client, self.file, self.selection, results, where, self)
        self.experts = ExpertsState(self.client, self.selection, results.question, self)
        self.probes = ProbesState(self.client, self.chat, self)
        self.comparison = ComparisonState(self.client, self.session, self.chat, self)
        self.texts = TextsState(self.client, self.session, self.chat, self)
        self.cells = CellsState(self.client, self.session, self.chat.live, self)

    def _connect(self) -> None:
        self.chat.details.changed.connect(self._remember_chat)
        self.chat.stored.connect(self.chats.refresh)
        self.chats.deleted.connect(self._on_deleted)
        self.chat.message_deleted.connect(lambda _: self._forget(self.chat.chat_id))
        self.chats.renamed.connect(self._on_renamed)
        self.downloads.finished.connect(self.library.refresh)
        self.session.opened.connect(self._on_opened)
        self.session.changed.connect(self._follow_model)
        self.selection.changed.connect(self._show_selected)
        self.chat.path_changed.connect(self._leave_token)
        self.layers.applying.moved.connect(self._keep_placement)
        self.preferences.changed.connect(self._preference_changed)

    @property
    def has_talk(self) -> bool:
        """True if a model is open or the open chat has messages."""
        return self.session.model is not None or bool(self.chat.path)

    def options_for(self, path: str | Path) -> EngineOptions:
        """Return the options last chosen for a model."""
        chosen = self.preferences.of_model(str(path))
        kept = {name: getattr(chosen, name) for name in KEPT}
        kept["ctx"] = chosen.ctx or self.preferences.value.default_ctx
        kept["lora"] = {file: scale for file, scale in chosen.lora.items() if isfile(file)}
        return self.options_of(**kept)

    def options_of(self, **chosen: Any) -> EngineOptions:
        """Return options of a model in this window: the chosen ones, and those that the
        preferences have for all models.
        """
        now = self.preferences.value
        # A file without blocks that predict tokens opens, too, where chats prefer these.
        drafting = "auto" if now.speculation == "mtp" else now.speculation
        return EngineOptions(
            parallel=AT_ONCE,
            prepared=now.prepared_gb,
            kept_chats=now.kept_chats,
            spec_type=drafting,
            **chosen,
        )

    def open_model(self, path: str | Path, options: EngineOptions | None = None) -> None:
        """Load a model, with what was chosen for it before or with `options`, which it keeps; or
        chat with a model of a server, whose address stands for a path.
        """
        address = address_of(path)
        if address is not None:
            self._open_server(path, address)
            return
        if options is not None:
            self._keep_options(path, options)
        self.session.open(path, options or self.options_for(path))

    def path_of(self, model: str) -> Path | None:
        """The file or the server's address of a model by its name; None where it is not known."""
        stored = [found.paths[0] for found in self.library.models]
        recent = [Path(path) for path in self.preferences.value.recent]
        return next((path for path in (*recent, *stored) if name_of(path) == model), None)

    def _open_server(self, path: str | Path, address: ServerAddress) -> None:
        connection = self.servers.of(path)
        if connection is not None:
            self.session.open_server(connection, address.model)
        else:
            text = tr(
                "there is no server {connection} any more; add it again",
                connection=address.connection,
            )
            self.session.refused.emit(Problem("ServerFailed", text, "open"))

    def reopen_chat(self) -> None:
        """Show the chat that was open when the program ended, if there still is one."""
        if self._last_chat is not None:
            self.chat.open(self._last_chat)

    def undo_delete_chat(self) -> None:
        """Bring back the chat that was deleted last, and show it."""
        restored = self.chats.undo_delete()
        if restored is not None:
            self.chat.open(restored)

    def follow(self, link: str) -> None:
        """Select what a link names; the chat and the version of it that have its word are opened.
        Raises BadLink for what neither the chats nor the open model have.
        """
        wanted, n_layer = selected_of(link), self.memory.n_layer
        if wanted.layer is not None and n_layer and wanted.layer > n_layer:
            raise BadLink(
                tr(
                    "The link's layer is {layer}; this model has {n_layer}.",
                    layer=wanted.layer,
                    n_layer=n_layer,
                )
            )
        if wanted.token is not None:
            message, index = wanted.token
            self._open_message(message)
            row = self.chat.row_of(message)
            if row is None:
                raise BadLink(tr("The linked message no longer exists."))
            if index >= len(self.chat.tokens(row)):
                raise BadLink(
                    tr("The link's token is #{index}; the message has fewer.", index=index + 1)
                )
        self.selection.follow(link)

    def close(self) -> None:
        """Save everything; end all jobs and threads; leave the engine. Harmless when done twice."""
        if self._closed:
            return
        self._closed = True
        self.serving.close()
        self.chat.close()
        self.pair.close()
        self.embedder.close()
        self.file.close()
        self.tensors.close()
        self.preferences.close()
        self.tools.close()
        self.client.close()
        close_jobs()
        self.store.close()
        self.log.close()

    def _open_message(self, message: int) -> None:
        """Show the chat that has a message, where that is not in sight."""
        if self.chat.row_of(message) is None:
            try:
                chat = self.store.chat_of(message)
            except StoreError as error:
                raise BadLink(str(error)) from None
            if chat is not None:
                self.chat.open_at(chat, message, [])

    def _follow_model(self) -> None:
        if self.session.path != self.file.path:
            self.selection.forget()  # it was of the model before
            self.experts.forget()
            self.file.open(self.session.path)

    def _show_selected(self) -> None:
        """Open the chat of the selected token, as Alt+Left may come back to another one's."""
        token = self.selection.now.token
        if token is None or self._opening or self.chat.row_of(token[0]) is not None:
            return
        self._opening = True
        with contextlib.suppress(BadLink):
            self._open_message(token[0])
        self._opening = False
        if self.chat.row_of(token[0]) is None:
            self.selection.forget_message(token[0])

    def _leave_token(self) -> None:
        """Another chat or branch is shown, without the selected token."""
        token = self.selection.now.token
        if token is not None and not self._opening and self.chat.row_of(token[0]) is None:
            self.selection.leave_token()

    def _keep_options(self, path: str | Path, options: EngineOptions) -> None:
        kept = {name: getattr(options, name) for name in KEPT if name != "lora"}
        self.preferences.update_model(str(path), **kept)

    def _keep_placement(self) -> None:
        if self.session.path is not None:
            self._keep_options(self.session.path, self.session.options)

    def _on_opened(self) -> None:
        """Remember the model; its adapters only now: such as do not fit would keep it closed."""
        path, options = str(self.session.path), self.session.options
        self.preferences.remember_opened(path)
        if self.session.connection is None and options.lora != self.preferences.of_model(path).lora:
            self.preferences.update_model(path, lora=options.lora)

    def add_adapter(self, adapter: Path) -> None:
        """Open the open model again with this adapter, too."""
        if self.session.path is not None:
            options = self.options_for(self.session.path)
            lora = {**self.session.options.lora, str(adapter): 1.0}
            self.open_model(self.session.path, replace(options, lora=lora))

    def remove_adapters(self) -> None:
        """Open the open model again without adapters."""
        if self.session.path is not None:
            options = replace(self.options_for(self.session.path), lora={})
            self.open_model(self.session.path, options)

    def _preference_changed(self, field: str) -> None:
        opened = self.preferences.value.last_model
        new = field == "recent" and not (opened and self.library.knows(Path(opened)))
        if field == "models_folder" or new:
            self.library.refresh()

    def _remember_chat(self) -> None:
        self.preferences.update(last_chat=self.chat.chat_id)

    def _on_deleted(self, chat: ChatRow) -> None:
        if self.chat.chat_id == chat.id:
            self.chat.open(None)
        self._forget(chat.id)

    def _forget(self, chat_id: int | None) -> None:
        """Delete what the engine has kept of a chat, or of a part that was deleted."""
        if chat_id is None:
            return
        Work(partial(forget_chat, str(chat_id))).start(self)
        if self.session.model is not None:  # or it would write what it holds later
            self.session.client.send(ForgetChat(0, str(chat_id)), fail=lambda _: None)

    def _on_renamed(self, chat_id: int, title: str) -> None:
        if self.chat.chat_id == chat_id:
            self.chat.set_title(title)
