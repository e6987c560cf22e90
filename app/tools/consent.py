"""Consent: which servers may run, which tools may be called. Only here permits are made.

A server runs with the person's rights, so its first start needs a yes, and a change of its command
another one. A call needs a yes, once, for a chat, or for always. What a server writes about its
tools may make this stricter, never looser.
"""

import json
import logging
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from app.tools.config import ServerConfig
from app.tools.tool import KnownTool
from engine.errors import CutawayError
from engine.kept import read_kept, write_atomically

Decision = Literal["once", "chat", "deny"]

log = logging.getLogger("tools")


def consent_file() -> Path:
    """The file of permissions of this user."""
    import platformdirs

    return Path(platformdirs.user_config_dir("cutaway", appauthor=False)) / "tools.json"


class NotAllowed(CutawayError):
    """A server or a tool without a valid permit."""


class StartPermit:
    """Permission to start exactly this server."""

    def __init__(self, server: ServerConfig, seal: object) -> None:
        self.server, self._seal = server, seal

    def check(self) -> ServerConfig:
        """The server. Raises NotAllowed for a permit that no consent store made."""
        if self._seal is not _SEAL:
            raise NotAllowed(f"server {self.server.name} was not allowed to run")
        return self.server


class CallPermit:
    """Permission for one call: of this tool, with these arguments, once."""

    def __init__(self, tool: KnownTool, arguments: str, seal: object) -> None:
        self.tool, self._arguments, self._seal = tool, arguments, seal
        self._used = False

    def use(self) -> tuple[KnownTool, str]:
        """The tool and its arguments, JSON as text. Raises NotAllowed the second time."""
        if self._seal is not _SEAL or self._used:
            raise NotAllowed(f"this call of {self.tool.full} was not allowed")
        self._used = True
        return self.tool, self._arguments


_SEAL = object()


class _Kept(msgspec.Struct):
    """The file: hashes of servers with their names; digests of tools by owner and name."""

    servers: dict[str, str] = {}
    tools: dict[str, str] = {}


@dataclass(frozen=True)
class Allowance:
    """A permission that is kept: to start a server, or to call a tool of it without a question."""

    owner: str  # hash of the server's config
    server: str  # its name; empty where its start was never allowed for good
    tool: str = ""


class ConsentStore:
    """Permissions that a person gave. `path` keeps them, else nothing outlives the program.

    Allowances of a chat are never kept in a file, nor taken from one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept = _Kept()
        self._chats: set[tuple[Hashable, str, str]] = set()  # chat, owner, digest
        if path is not None:
            try:
                self._kept = msgspec.json.decode(read_kept(path), type=_Kept)
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as error:  # nothing is allowed then
                log.warning("permissions of tools cannot be read: %s", error)

    # Servers

    def may_start(self, server: ServerConfig) -> StartPermit | None:
        """The permit, where this very command was allowed before."""
        return StartPermit(server, _SEAL) if server.hash in self._kept.servers else None

    def allow_server(self, server: ServerConfig, keep: bool = True) -> StartPermit:
        """A person has read the command and allows it; `keep` remembers it."""
        if keep:
            self._kept.servers[server.hash] = server.name
            self._save()
        return StartPermit(server, _SEAL)

    @property
    def allowances(self) -> list[Allowance]:
        """All that is kept, by server: its start, then its tools."""
        servers, tools = self._kept.servers, self._kept.tools
        made = [Allowance(owner, name) for owner, name in servers.items()]
        for key in tools:
            owner, _, name = key.partition("/")
            with suppress(ValueError):  # of a file that a person has edited
                made.append(Allowance(owner, servers.get(owner, ""), str(json.loads(name))))
        return sorted(made, key=lambda one: (one.server, one.owner, one.tool))

    def revoke(self, allowance: Allowance) -> None:
        """Withdraw a permission; without a tool, of the server's start and of all its tools."""
        owner, kept = allowance.owner, self._kept
        one = f"{owner}/{json.dumps(allowance.tool)}"
        gone = [
            key
            for key in kept.tools
            if (key == one if allowance.tool else key.startswith(f"{owner}/"))
        ]
        digests = {kept.tools.pop(key) for key in gone}
        if not allowance.tool:
            kept.servers.pop(owner, None)
        self._chats = {
            chat
            for chat in self._chats
            if chat[1] != owner or (allowance.tool and chat[2] not in digests)
        }
        self._save()

    # Tools

    def review(self, tools: list[KnownTool]) -> list[KnownTool]:
        """Withdraw what was allowed of tools whose description has changed since; these tools."""
        changed = [
            tool for tool in tools if self._kept.tools.get(_key(tool), tool.digest) != tool.digest
        ]
        for tool in changed:
            del self._kept.tools[_key(tool)]
        if changed:
            self._save()
        return changed

    def may_call(self, tool: KnownTool, arguments: str, chat: Hashable) -> CallPermit | None:
        """A permit, where the tool as it is now was allowed in this chat or for always."""
        in_chat = (chat, tool.owner, tool.digest) in self._chats
        allowed = tool.built_in or in_chat or self.is_always(tool)
        return CallPermit(tool, arguments, _SEAL) if allowed else None

    def decide(
        self, tool: KnownTool, arguments: str, chat: Hashable, decision: Decision
    ) -> CallPermit | None:
        """A permit by what a person has chosen for these very arguments; None where denied."""
        if decision not in ("once", "chat"):
            return None
        if decision == "chat":
            self._chats.add((chat, tool.owner, tool.digest))
        return CallPermit(tool, arguments, _SEAL)

    def is_always(self, tool: KnownTool) -> bool:
        """True if it may be called without a question in every chat."""
        return not tool.destructive and self._kept.tools.get(_key(tool)) == tool.digest

    def set_always(self, tool: KnownTool, allowed: bool) -> None:
        """Allow a tool in every chat, or no longer. Raises NotAllowed for a destructive one."""
        if allowed and tool.destructive:
            raise NotAllowed(f"{tool.full} may destroy data, so each call needs your consent")
        if allowed:
            self._kept.tools[_key(tool)] = tool.digest
        else:
            self._kept.tools.pop(_key(tool), None)
            self._chats = {one for one in self._chats if one[2] != tool.digest}
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            write_atomically(self._path, msgspec.json.encode(self._kept))
        except OSError as error:
            log.warning("permissions of tools cannot be kept: %s", error)


def _key(tool: KnownTool) -> str:
    return f"{tool.owner}/{json.dumps(tool.name)}"
