"""`cutaway doctor` and `cutaway devices`: for people, for programs, and with nothing installed."""

import json

import pytest

from app.cli import main
from app.commands import devices, doctor
from engine.protocol import DeviceCheck, DeviceRow, DriverCheck

GOOD = DriverCheck("/lib/good.so", "good-rt", [DeviceCheck("A CPU", 0.25)])
BAD = DriverCheck(
    "/lib/bad.so", "/etc/OpenCL/vendors", problem="it does not load", advice="mend it"
)
ROW = DeviceRow("pocl:1", "A CPU", "Them", "PoCL 3.0", 3 << 30, 8, True, "slow")


@pytest.fixture
def found(monkeypatch, own_home):
    """Sets which drivers' results there are and which Qt libraries load."""

    def put(drivers, missing=()):
        monkeypatch.setattr(doctor, "check_drivers", lambda: iter(drivers))
        monkeypatch.setattr(doctor, "loads", lambda library: library not in missing)

    return put


def test_all_well(found, capsys):
    found([GOOD])
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "ok  /lib/good.so (from good-rt)" in out
    assert "0.25 s" in out
    assert "next:" not in out


def test_no_driver(found, capsys):
    found([])
    assert main(["doctor"]) == 1
    assert "pip install 'cutaway[cpu]'" in capsys.readouterr().out


def test_bad_driver_beside_a_good_one(found, capsys):
    found([BAD, GOOD])
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "BAD /lib/bad.so" in out
    assert "next: mend it" in out


@pytest.mark.only_linux("packages of Debian and others")
def test_json_names_packages_once(found, capsys):
    found([BAD], missing=("libxcb-icccm.so.4", "libglib-2.0.so.0", "libgthread-2.0.so.0"))
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["missing_packages"] == ["libglib2.0-0", "libxcb-icccm4"]
    assert told["drivers"][0]["problem"] == "it does not load"
    assert told["next_steps"] == [
        "pip install 'cutaway[cpu]'",
        "apt-get install -y --no-install-recommends libglib2.0-0 libxcb-icccm4",
        "mend it",
    ]


def test_missing_library_is_seen():
    assert doctor.loads("libc.so.6")
    assert not doctor.loads("libnothing.so.0")


@pytest.mark.device
def test_the_drivers_here():
    results = list(doctor.check_drivers())
    assert all(result.works or result.problem or result.devices for result in results)
    ids = [row.id for row in devices.list_devices()]
    assert len(set(ids)) == len(ids)
    assert len(ids) >= sum(result.works for result in results)


def test_devices_table_and_json(monkeypatch, capsys):
    monkeypatch.setattr(devices, "list_devices", lambda: [ROW])
    assert main(["devices"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("* pocl:1")
    assert "3072 MiB" in table[0]
    assert table[1].startswith("  host")
    assert main(["devices", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told[0]["id"] == "pocl:1"
    assert told[0]["memory"] == 3 << 30


def test_devices_without_any(monkeypatch, capsys):
    monkeypatch.setattr(devices, "list_devices", list)
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "* host" in out
    assert "cutaway[cpu]" in out


@pytest.mark.only_linux("packages of Debian and others")
@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (("libxcb-icccm.so.4",), "the window needs 1 more system package\n"),
        (("libxcb-icccm.so.4", "libglib-2.0.so.0"), "the window needs 2 more system packages\n"),
    ],
)
def test_missing_packages_are_counted(found, capsys, missing, says):
    found([GOOD], missing)
    main(["doctor"])
    assert says in capsys.readouterr().out
