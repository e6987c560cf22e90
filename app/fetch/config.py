"""Which package index this machine uses, as its pip or uv is set up: indexes, proxy, certificate.

Order: pip's variables, uv's variables, pip's configuration files (the narrower one wins), PyPI.
Indexes that are folders (`file:`) are left out: they hold packages to install, not models.
"""

import configparser
import os
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx2

from app.trust import trusted
from engine.errors import BadSetting

PYPI = "https://pypi.org/simple"
MACHINE_WIDE = Path("/etc")


@dataclass(frozen=True)
class IndexConfig:
    """Index addresses, best first; a proxy besides those of the environment; a CA file."""

    indexes: tuple[str, ...]
    proxy: str | None
    certificate: str | None

    def client(self) -> httpx2.Client:
        """A client with these settings. Raises BadSetting for a certificate that is not a file."""
        return web_client(self.proxy, self.certificate)


def web_client(proxy: str | None = None, certificate: str | None = None) -> httpx2.Client:
    """A client that follows redirects; proxies and certificates of the environment are used too."""
    context = trusted()
    if certificate:
        try:
            context = ssl.create_default_context(cafile=certificate)
        except OSError as error:
            raise BadSetting("cert", certificate, f"a CA bundle ({error})") from None
    headers = {"User-Agent": "cutaway"}
    return httpx2.Client(follow_redirects=True, proxy=proxy, verify=context, headers=headers)


def index_config() -> IndexConfig:
    """The configuration now: environment and files are read at each call."""
    files = _pip_options()

    def first(*names: str, option: str) -> list[str]:
        for name in names:
            if os.environ.get(name):
                return os.environ[name].split()
        return files.get(option, "").split()

    main = first("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", option="index-url")
    extra = first("PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", option="extra-index-url")
    # uv allows `name=address`
    addresses = [a if "=" not in a.split(":")[0] else a.split("=", 1)[1] for a in [*main, *extra]]
    web = [a.rstrip("/") for a in addresses if a.startswith(("http://", "https://"))]
    if not any(a.startswith(("http://", "https://")) for a in main):
        web.insert(0, PYPI)
    proxy = first("PIP_PROXY", option="proxy")
    certificate = os.environ.get("PIP_CERT") or files.get("cert")
    return IndexConfig(tuple(dict.fromkeys(web)), proxy[0] if proxy else None, certificate)


def _pip_options() -> dict[str, str]:
    """Options of pip's [global] and [install] sections; later files win over earlier ones."""
    options: dict[str, str] = {}
    for path in _pip_files():
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip's own complaint is the place to learn about it
        for section in ("global", "install"):
            if parser.has_section(section):
                options |= dict(parser.items(section))
    return options


def _pip_files() -> list[Path]:
    """Where pip looks, from the widest to the narrowest (pip's documentation, "Configuration")."""
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    home = Path.home()
    if sys.platform == "win32":
        name = "pip.ini"
        folders = [
            Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "pip",
            home / "pip",
            Path(os.environ.get("APPDATA", home)) / "pip",
        ]
    else:
        name = "pip.conf"
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        shared = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        folders = [Path(folder) / "pip" for folder in shared.split(":")]
        folders += [MACHINE_WIDE, home / ".pip", config / "pip"]
        if sys.platform == "darwin":
            library = Path("Library/Application Support/pip")
            folders = ["/" / library, *folders, home / library]
    folders.append(Path(sys.prefix))
    return [folder / name for folder in folders] + ([Path(chosen)] if chosen else [])
