"""A feature of an autoencoder as an edit of the chat, which adds its direction to a result."""

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject

from app.language import tr
from app.state.talk.chat_edits import ChatEdits
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import LONGEST_NAME, ChatEdit
from app.work import Work
from engine.arrays.autoencoder import open_autoencoder
from engine.errors import BadSetting
from engine.protocol import Edit


class _Direction(NamedTuple):
    site: str
    layer: int
    hash: str
    data: bytes


def turn_up(
    edits: ChatEdits,
    sae: tuple[str, str],
    feature: tuple[int, str],
    strength: float,
    ended: Callable[[str], None],
    parent: QObject,
) -> None:
    """Add a feature to the chat's edits, read in a job from the autoencoder `sae`, a folder with a
    result in place of its own ("": none). `feature` is its index and name. `ended` gets "", or what
    is wrong.
    """
    index, name = feature

    def then(found: _Direction) -> None:
        edit = Edit(found.site, [found.layer], "add", value=strength)
        title = tr("feature {index}: {name}", index=index, name=name) if name else f"#{index}"
        try:
            edits.add(ChatEdit(edit, found.hash, title[:LONGEST_NAME]), {found.hash: found.data})
        except BadSetting as error:
            ended(str(error))
        else:
            ended("")

    Work(_read, sae, index).then(then).fail(ended).start(parent)


def _read(sae: tuple[str, str], index: int) -> _Direction:
    """Raises `BadFile`, `BadSetting`, `NotSupported`."""
    found = open_autoencoder(*sae)
    if not 0 <= index < found.n:
        raise BadSetting("feature", index, tr("a feature from 0 to {last}", last=found.n - 1))
    if found.writes.layer < 0:
        raise BadSetting("feature", index, tr("an autoencoder of a layer's result"))
    return _Direction(
        found.writes.site,
        found.writes.layer,
        *pack({found.writes.layer: found.w_dec[index].copy()}),
    )
