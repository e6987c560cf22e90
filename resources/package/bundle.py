"""Make Cutaway for Linux as one archive that brings its own Python and libraries.

`python resources/package/bundle.py FOLDER` writes `FOLDER/Cutaway.AppDir` and
`FOLDER/cutaway-VERSION-linux-MACHINE.tar.xz` of it. It needs `patchelf`, binutils, the libraries
that Qt needs from a desktop (.ci/run lists them; libwayland-cursor0 and libwayland-egl1 besides)
and the package index or pip's cache. It runs on systems with a C library as new as the one it was
made on. The folder's layout is that of an AppDir, so that `appimagetool Cutaway.AppDir` makes an
AppImage of it.
"""

import compileall
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Intel's runtime is under a licence of its own: it is for the user to install.
EXTRAS = "pocl,serve,mcp"
# An environment's Python has its library elsewhere.
OF_BASE = {
    "base": sys.base_prefix,
    "installed_base": sys.base_prefix,
    "platbase": sys.base_exec_prefix,
    "installed_platbase": sys.base_exec_prefix,
}
UNCHECKED = PycInvalidationMode.UNCHECKED_HASH  # files of an archive keep no times
# Of Python: tests, and what needs Tcl or libnsl or makes other environments.
UNUSED_PYTHON = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "venv"),
    *(
        "_tkinter*",
        "nis.*",
        "site-packages",
        "dist-packages",
        "__pycache__",
        "config-*",
        "*.a",
        "pydoc_data",
    ),
)
QT_MODULES = (
    "QtCore",
    "QtDBus",
    "QtGui",
    "QtOpenGL",
    "QtOpenGLWidgets",
    "QtSvg",
    "QtTest",
    "QtWidgets",
)
QT_PLUGINS = (
    *("iconengines", "imageformats", "platforminputcontexts", "platforms", "platformthemes"),
    *("wayland-decoration-client", "wayland-graphics-integration-client"),
    *("wayland-shell-integration", "xcbglintegrations"),
)
NO_PLUGINS = (
    "*eglfs*",
    "*linuxfb*",
    "*vkkhrdisplay*",
    "*vnc*",
    "*minimalegl*",
    "*gtk3*",
    "*qpdf*",
    "*virtualkeyboard*",
)
# Every system has them, and no process works with two of them.
OF_THE_C_LIBRARY = re.compile(
    r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|mvec))\.so\..*"
)
LAUNCHER = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
unset PYTHONHOME PYTHONPATH
export CUTAWAY_LAUNCHER="$here/cutaway"
export PATH="$PATH:$here/bin"  # `ld`, which PoCL needs, for systems without one
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_FILE="$here/share/fonts/fonts.conf"
exec "$here/bin/{python}" -P -s -m cutaway "$@"
"""
# The entry that `cutaway install-desktop` writes, by the program that was just put together.
ENTRY = """
import cutaway
from app.commands.install_desktop import ENTRY, TYPE
print(ENTRY.format(command="cutaway", type=TYPE), end="")
"""
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">.</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
FONT_FILES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf")


def main() -> None:
    """Make the folder, then the archive."""
    folder = Path(sys.argv[1]).resolve()
    made = folder / "Cutaway.AppDir"
    if made.exists():
        raise SystemExit(f"{made} is there already: delete it first")
    (made / "bin").mkdir(parents=True)
    packages = made / "lib" / PYTHON / "site-packages"
    copy_python(made)
    install(packages)
    qt = packages / "PySide6" / "Qt" / "lib"
    prune_qt(packages / "PySide6")
    copy_libraries(made, qt)
    offer_libgcc(made, qt)
    add_launcher(made)
    compileall.compile_dir(
        made / "lib", quiet=2, workers=0, stripdir=made, invalidation_mode=UNCHECKED
    )
    sys.stdout.write(f"{pack(made, folder)}\n")


def copy_python(made: Path) -> None:
    """This Python: the interpreter, its library if it is a shared one, the standard library."""
    shutil.copy2(Path(sys.executable).resolve(), made / "bin" / PYTHON)
    for name in ("stdlib", "platstdlib"):
        source = Path(sysconfig.get_path(name, vars=OF_BASE))
        target = made / "lib" / PYTHON
        shutil.copytree(
            source, target, ignore=shutil.ignore_patterns(*UNUSED_PYTHON), dirs_exist_ok=True
        )
    library = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        shutil.copy2(Path(sysconfig.get_config_var("LIBDIR")) / library, made / "lib" / library)
    qt = f"$ORIGIN/../lib/{PYTHON}/site-packages/PySide6/Qt/lib"
    # An old-style path counts for the libraries of libraries, too, where they name none themselves.
    for module in [*made.rglob("lib-dynload/*.so"), *made.glob("lib/*.so*")]:
        call("patchelf", "--remove-rpath", module)
    call("patchelf", "--force-rpath", "--set-rpath", f"$ORIGIN/../lib:{qt}", made / "bin" / PYTHON)


def install(packages: Path) -> None:
    """Cutaway and what it needs, as wheels of the package index."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile")
    call(*pip, "--no-binary=cutaway", "--target", packages, f"{ROOT}[{EXTRAS}]")
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for folder in [*packages.rglob("tests"), *packages.rglob("__pycache__")]:
        shutil.rmtree(folder, ignore_errors=True)


def prune_qt(pyside: Path) -> None:
    """Leave of Qt what a window of widgets needs."""
    for path in pyside.iterdir():
        if path.name.split(".")[0] in QT_MODULES and path.suffix == ".so":
            continue
        if path.name in ("Qt", "__init__.py", "_config.py", "_git_pyside_version.py", "support"):
            continue
        if not path.name.startswith("libpyside6.abi3"):
            remove(path)
    qt = pyside / "Qt"
    for path in [*qt.iterdir(), *(qt / "plugins").iterdir()]:
        if path.name not in ("lib", "plugins", "translations", *QT_PLUGINS):
            remove(path)
    for pattern in NO_PLUGINS:
        for path in (qt / "plugins").rglob(pattern):
            remove(path)
    for path in (qt / "translations").iterdir():
        if not path.name.startswith("qtbase_"):
            remove(path)
    libraries = {path.name: path for path in (qt / "lib").iterdir()}
    waiting = [path for path in pyside.rglob("*.so*") if path.parent != qt / "lib"]
    wanted: set[str] = set()
    while waiting:
        for name in needed(waiting.pop()):
            if name in libraries and name not in wanted:
                wanted.add(name)
                waiting.append(libraries[name])
    for name in libraries.keys() - wanted:
        remove(libraries[name])


def copy_libraries(made: Path, qt: Path) -> None:
    """Libraries of this system that the folder needs, with their licences; `ld` for PoCL.

    Qt's own look beside themselves for others, so that is where they go.
    """
    shutil.copy2(Path(shutil.which("ld") or "/usr/bin/ld").resolve(), made / "bin" / "ld")
    here = {path.name for path in made.rglob("*.so*")}
    copied: list[Path] = []
    waiting = [path for path in made.rglob("*") if is_program(path)]
    while waiting:
        path = waiting.pop()
        for name in needed(path):
            if name in here or OF_THE_C_LIBRARY.fullmatch(name):
                continue
            found = find(name)
            if found is None:
                raise SystemExit(f"{path} needs {name}: install the package that has it")
            here.add(name)
            shutil.copy2(found.resolve(), qt / name)
            copied.append(found)
            waiting.append(qt / name)
    rpath = f"$ORIGIN/../{qt.relative_to(made)}"
    call("patchelf", "--force-rpath", "--set-rpath", rpath, made / "bin" / "ld")
    copy_licences(made, [*copied, Path(shutil.which("ld") or "ld")])


def offer_libgcc(made: Path, qt: Path) -> None:
    """Put libgcc_s, which PoCL's kernels are linked with, beside the engine's scripts for `ld`
    (`drivers/loader.py`), for systems without it.
    """
    (scripts,) = made.rglob("drivers/libraries")
    link = scripts / "libgcc_s.so.1"
    link.symlink_to(os.path.relpath(qt / link.name, scripts))


def copy_licences(made: Path, files: list[Path]) -> None:
    """The licences of what came from this system, by its packages; dpkg knows which they are."""
    target = made / "licenses"
    target.mkdir()
    shutil.copy2(ROOT / "LICENSE", target / "cutaway")
    shutil.copy2(ROOT / "resources" / "docs" / "third-party.md", target / "packages.md")
    shutil.copy2(
        Path(sysconfig.get_path("stdlib", vars=OF_BASE)) / "LICENSE.txt", target / "python"
    )
    if shutil.which("dpkg") is None:
        return
    for file in files:
        for path in dict.fromkeys((file, file.resolve())):
            ended = subprocess.run(
                ["dpkg", "-S", path], capture_output=True, text=True, check=False
            )
            if ended.returncode == 0:
                package = ended.stdout.partition(":")[0]
                shutil.copy2(f"/usr/share/doc/{package}/copyright", target / package)
                break


def add_launcher(made: Path) -> None:
    """The program to start, fonts for a system without any, and an AppDir's three files."""
    launcher = made / "cutaway"
    launcher.write_text(LAUNCHER.format(python=PYTHON))
    launcher.chmod(0o755)
    (made / "AppRun").symlink_to("cutaway")
    fonts = made / "share" / "fonts"
    fonts.mkdir(parents=True)
    (fonts / "fonts.conf").write_text(FONTS)
    for name in FONT_FILES:
        shutil.copy2(f"/usr/share/fonts/truetype/dejavu/{name}", fonts / name)
    shutil.copy2(ROOT / "resources" / "desktop" / "cutaway.svg", made / "cutaway.svg")
    entry = subprocess.check_output([made / "bin" / PYTHON, "-P", "-s", "-c", ENTRY])
    (made / "cutaway.desktop").write_bytes(entry)


def pack(made: Path, folder: Path) -> Path:
    """The archive; owners and times are left out, so that the same files give the same bytes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    name = f"cutaway-{version}-linux-{platform.machine()}"

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = "root"
        return entry

    archive = folder / f"{name}.tar"
    with tarfile.open(archive, "w") as opened:
        opened.add(made, name, filter=plain)
    call("xz", "-T0", "-2", "--force", archive)
    return archive.with_suffix(".tar.xz")


def needed(path: Path) -> list[str]:
    """The names of the libraries that an ELF file asks for."""
    told = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=False)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", told.stdout)


def find(name: str) -> Path | None:
    """A library of this system, by its name."""
    told = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    found = re.search(rf"^\s*{re.escape(name)} \(libc6,x86-64[^)]*\) => (.+)$", told.stdout, re.M)
    return Path(found[1]) if found else None


def is_program(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def call(*command: str | Path) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
