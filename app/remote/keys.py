"""Keys of servers: in the system's keyring, in the environment, or typed for this run alone."""

import os
import re
from typing import Protocol

from app.remote.connection import Connection

SERVICE = "cutaway"


class KeyStore(Protocol):
    """A store for secrets; `keyring` has these functions."""

    def get_password(self, service: str, name: str) -> str | None: ...

    def set_password(self, service: str, name: str, key: str) -> None: ...

    def delete_password(self, service: str, name: str) -> None: ...


class Keys:
    """Keys by connection. One is for the server at that address: where the address changes, the
    key is requested again. Methods may wait for the person to unlock the keyring: not for the
    window's thread. May be called from several threads.

    Nothing of a key is ever part of an error, a file or a log.
    """

    def __init__(self, store: KeyStore | None = None) -> None:
        self._store = store
        self._typed: dict[str, str] = {}

    def of(self, connection: Connection) -> str:
        """The environment's key, else one typed in this run, else the keyring's; else empty."""
        value = os.environ.get(variable(connection.name))
        if value:
            return value.strip()
        account = _account(connection)
        if account in self._typed:
            return self._typed[account]
        try:
            return self._keyring().get_password(SERVICE, account) or ""
        except Exception:  # noqa: BLE001  backends raise what their system does
            return ""

    def keep(self, connection: Connection, key: str) -> str:
        """Keep a key; empty, or why it is only for this run."""
        account = _account(connection)
        self._typed[account] = key
        try:
            self._keyring().set_password(SERVICE, account, key)
        except Exception:  # noqa: BLE001  backends raise what their system does
            return (
                "There is no system keyring, so the key is kept until Cutaway is closed. "
                f"{variable(connection.name)} in the environment sets it permanently."
            )
        return ""

    def type_in(self, connection: Connection, key: str) -> None:
        """Use a key in this run alone."""
        self._typed[_account(connection)] = key

    def forget(self, connection: Connection) -> None:
        """Have no key of it any more; harmless where there is none."""
        account = _account(connection)
        self._typed.pop(account, None)
        try:
            self._keyring().delete_password(SERVICE, account)
        except Exception:  # noqa: BLE001  backends raise what their system does
            return

    def _keyring(self) -> KeyStore:
        if self._store is None:
            import keyring

            self._store = keyring
        return self._store


def variable(name: str) -> str:
    """The environment's variable with the key of a connection."""
    return f"CUTAWAY_KEY_{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_')}"


def _account(connection: Connection) -> str:
    return f"{connection.name} {connection.origin}"
