"""A scripted engine that sees: pictures are brought, planned and shown, as tiles or whole."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter
from PySide6.QtTest import QTest

from app.window.main_window import MainWindow
from engine.protocol import (
    Load,
    Loaded,
    PictureInfo,
    PictureLimits,
    PicturePlan,
    PicturePlans,
    PictureSeen,
    PictureView,
    PlanPictures,
    PutPicture,
    RowsPiece,
    SeenView,
    ShowPicture,
    TextPiece,
    Vision,
)
from tests.app.helpers.scripted import ScriptedEngine

Plan = Callable[[int, int], PicturePlan]
TILE = 96  # pixels of a tile's side, 4 x 4 cells
PATIENCE_MS = 60_000


def until(condition: Callable[[], object]) -> None:
    """Let the window work until something is true."""
    for _ in range(PATIENCE_MS // 10):
        if condition():
            return
        QTest.qWait(10)
    raise AssertionError("it did not come")


def landscape(path: Path, width: int = 320, height: int = 240, sun: str = "#F6C244") -> Path:
    """Hills under a sun: something to look at, not grey."""
    image = Image.new("RGB", (width, height), "#9CC7E8")
    draw = ImageDraw.Draw(image)
    for row in range(height):
        tone = row / height
        draw.line(
            [(0, row), (width, row)],
            fill=(int(110 + 120 * tone), int(170 + 50 * tone), int(225 - 20 * tone)),
        )
    side = min(width, height) // 5
    left, top = int(width * 0.66), int(height * 0.12)
    draw.ellipse([left, top, left + side, top + side], fill=sun)
    hill = [(0, height), (0, int(height * 0.62)), (int(width * 0.3), int(height * 0.38))]
    hill += [(int(width * 0.62), int(height * 0.7)), (width, int(height * 0.5)), (width, height)]
    draw.polygon(hill, fill="#3E7C59")
    near = [(0, height), (0, int(height * 0.82)), (int(width * 0.5), int(height * 0.68))]
    near += [(width, int(height * 0.86)), (width, height)]
    draw.polygon(near, fill="#2A5A41")
    image.filter(ImageFilter.SMOOTH).save(path)
    return path


def load_seeing(engine: ScriptedEngine, name: str = "SmolVLM 256M", n_ctx: int = 8192) -> None:
    """The model that was asked for is open, and sees."""
    request = engine.last_of(Load)
    assert isinstance(request, Load)
    engine.say(
        Loaded(
            *(request.id, request.path, name, "llama", "intel:0", "Intel CPU", n_ctx, n_ctx),
            *(49152, "file"),
            vision=Vision("idefics3", "/models/mmproj-SmolVLM.gguf", 104 << 20),
        )
    )


def tiled(width: int, height: int, seconds: float | None = 1.8) -> PicturePlan:
    """As many tiles as the picture is wide and high, and an overview, in SmolVLM's manner."""
    columns, rows = max(1, round(width / 160)), max(1, round(height / 160))
    views, pieces = [], list[TextPiece | RowsPiece]()
    for row in range(rows):
        for column in range(columns):
            source = (
                *(column * width / columns, row * height / rows),
                *((column + 1) * width / columns, (row + 1) * height / rows),
            )
            views.append(_view(source, "tile", row, column))
            pieces += [
                TextPiece(f"<row_{row + 1}_col_{column + 1}>"),
                RowsPiece(len(views) - 1, 0, 16),
            ]
    views.append(_view((0, 0, width, height), "overview", 0, 0))
    pieces += [TextPiece("\n<global-img>"), RowsPiece(len(views) - 1, 0, 16)]
    n = sum(piece.count if isinstance(piece, RowsPiece) else 3 for piece in pieces)
    notes = ["enlarged 2 times"]
    return PicturePlan(
        views, list(pieces), n, 16 * len(views), 64 * len(views), False, seconds, notes
    )


def limited(width: int, height: int, limits: PictureLimits) -> PicturePlan:
    """As `tiled`, of a picture halved until it keeps to the limits; or its overview alone."""
    plan = tiled(width, height)
    while limits.rows is not None and plan.n_rows > limits.rows and max(width, height) > 160:
        width, height = width // 2, height // 2
        plan = tiled(width, height)
    if limits.one_view:
        pieces = [TextPiece("<global-img>"), RowsPiece(0, 0, 16)]
        return PicturePlan(plan.views[-1:], list(pieces), 19, 16, 64)
    return plan


def whole(width: int, height: int, seconds: float | None = None) -> PicturePlan:
    """One square view of 16 x 16 cells behind an embedding of no place."""
    boxes = (0, 0, width, height), (0, 0, 224, 224)
    view = PictureView(224, 224, *boxes, "whole", 0, 0, 16, 16, extras=1)
    pieces = [TextPiece("<start_of_image>"), RowsPiece(0, 0, 257), TextPiece("<end_of_image>")]
    return PicturePlan([view], list(pieces), 260, 257, 4096, False, seconds)


def _view(source: tuple[float, ...], role: str, row: int, column: int) -> PictureView:
    left, top, right, bottom = source
    return PictureView(
        TILE, TILE, (left, top, right, bottom), (0, 0, TILE, TILE), role, row, column, 4, 4
    )


def bring(
    engine: ScriptedEngine, plan: Callable[[int, int], PicturePlan], count: int = 1
) -> list[PictureInfo]:
    """Answer the next pictures that are brought, as an engine with real eyes would."""
    told = []
    for _ in range(count):
        until(lambda: any(_unanswered(engine)))
        request = _unanswered(engine)[0]
        image = Image.open(io.BytesIO(request.data))
        digest = f"digest of {request.id}"
        told.append(PictureInfo(request.id, digest, *image.size, [], plan(*image.size)))
        if engine.keeps_pictures:
            engine.pictures[digest] = image.convert("RGB")
        engine.say(told[-1])
    return told


def _unanswered(engine: ScriptedEngine) -> list[PutPicture]:
    return [r for r in engine.asked if isinstance(r, PutPicture) and engine.waits_for(r.id)]


def price(
    engine: ScriptedEngine, plan: Callable[[int, int, PictureLimits], PicturePlan] = limited
) -> None:
    """Answer what pictures would take."""
    for request in engine.asked:
        if isinstance(request, PlanPictures) and engine.waits_for(request.id):
            limits = request.limits or [PictureLimits()] * len(request.sizes)
            plans = [plan(*size, one) for size, one in zip(request.sizes, limits, strict=True)]
            engine.say(PicturePlans(request.id, plans))


def show(engine: ScriptedEngine, plan: Callable[[int, int], PicturePlan]) -> PictureSeen:
    """Answer what was asked of a picture's views."""
    request = engine.last_of(ShowPicture)
    assert isinstance(request, ShowPicture)
    image = engine.pictures[request.digest]
    made = plan(*image.size)
    views = []
    for view in made.views:
        left, top, right, bottom = (round(edge) for edge in view.source)
        cut = image.crop((left, top, right, bottom)).resize((view.width, view.height))
        views.append(SeenView(view.width, view.height, cut.tobytes()))
    seen = PictureSeen(request.id, request.digest, made, views)
    engine.say(seen)
    return seen


def opened(window: MainWindow) -> ScriptedEngine:
    """The window's engine, with a model that sees."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    window.bench.open_model(Path("/models/SmolVLM.gguf"))
    load_seeing(engine)
    QTest.qWait(0)
    return engine


def attach(
    window: MainWindow, engine: ScriptedEngine, *paths: Path, plan: Plan = tiled
) -> list[str]:
    """Attach pictures that are brought the first time; their digests, in order."""
    attached = window.bench.chat.attached
    before = len(attached.pictures)
    window.vision.add_files(paths)
    until(lambda: len(attached.pictures) == before + len(paths))
    digests = {info.id: info.digest for info in bring(engine, plan, len(paths))}
    # They are brought in any order: several threads read files.
    brought = {
        sha256(request.data).hexdigest(): digests[request.id]
        for request in engine.asked
        if isinstance(request, PutPicture) and request.id in digests
    }
    return [brought[picture.hash] for picture in attached.pictures[before:]]


def three(folder: Path) -> list[Path]:
    """Three pictures of different sizes: a, b and c."""
    sizes = ((320, 240), (240, 320), (31, 17))
    return [landscape(folder / f"{n}.png", *size) for n, size in zip("abc", sizes, strict=True)]
