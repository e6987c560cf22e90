"""Which package index is asked, for each way to set one up."""

import os
from pathlib import Path

import pytest

from app.fetch.config import PYPI, index_config
from engine.errors import BadSetting


@pytest.fixture(autouse=True)
def _nothing_set(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in [n for n in os.environ if n.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(own_home / "etc"))
    # The machine's own /etc/pip.conf must not matter here.
    monkeypatch.setattr("app.fetch.config.MACHINE_WIDE", own_home / "machine")


def pip_conf(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_set() -> None:
    config = index_config()
    assert (config.indexes, config.proxy, config.certificate) == ((PYPI,), None, None)


def test_pip_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///x https://b.example/s https://c.example/")
    monkeypatch.setenv("PIP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("UV_INDEX_URL", "https://not-asked.example")
    config = index_config()
    assert config.indexes == (
        "https://mirror.example/simple",
        "https://b.example/s",
        "https://c.example",
    )
    assert config.proxy == "http://proxy.example:3128"


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_uv_variables(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "https://user:pa=ss@mirror.example/simple")
    monkeypatch.setenv("UV_INDEX", "mine=https://b.example/simple")
    assert index_config().indexes == (
        "https://user:pa=ss@mirror.example/simple",
        "https://b.example/simple",
    )


def test_a_folder_is_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "file:///srv/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://b.example/simple")
    assert index_config().indexes == (PYPI, "https://b.example/simple")


@pytest.mark.only_linux("its folders of certificates")
def test_pip_files_narrower_ones_win(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip_conf(
        own_home / "machine" / "pip.conf",
        "[global]\nindex-url = https://machine.example\ncert = /machine.pem\nproxy = http://p.example",
    )
    pip_conf(own_home / "etc" / "pip" / "pip.conf", "[global]\nextra-index-url = https://x.example")
    assert index_config().indexes == ("https://machine.example", "https://x.example")
    pip_conf(
        own_home / "config" / "pip" / "pip.conf",
        "[global]\nindex-url=https://user.example/%3Fa\nextra-index-url =\n    https://y.example\n"
        "    https://z.example\n[install]\ncert = /user.pem",
    )
    config = index_config()
    assert config.indexes == ("https://user.example/%3Fa", "https://y.example", "https://z.example")
    assert (config.certificate, config.proxy) == ("/user.pem", "http://p.example")
    pip_conf(tmp_path / "chosen.conf", "[global]\nindex-url = https://chosen.example")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "chosen.conf"))
    assert index_config().indexes[0] == "https://chosen.example"
    monkeypatch.setenv("PIP_CERT", "/variable.pem")
    assert index_config().certificate == "/variable.pem"
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert index_config().indexes == (PYPI,)


def test_a_file_that_pip_would_not_read_is_left_out(own_home: Path) -> None:
    pip_conf(own_home / "config" / "pip" / "pip.conf", "index-url = outside of any section")
    assert index_config().indexes == (PYPI,)


def test_a_wrong_certificate_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
    with pytest.raises(BadSetting, match=r"none\.pem"):
        index_config().client()
    (tmp_path / "none.pem").write_text("not a certificate")
    with pytest.raises(BadSetting, match=r"none\.pem"):
        index_config().client()
