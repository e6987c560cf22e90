"""Every model whose header is made."""

from tests.engine.models.published import (
    dense,
    joint,
    newer,
    older,
    others,
    recurrent,
    routed,
    sparse,
    windowed,
)
from tests.engine.models.published.size import CONTEXT, Size

__all__ = ["CONTEXT", "SIZES"]

SIZES: dict[str, Size] = {
    **dense.SIZES,
    **others.SIZES,
    **joint.SIZES,
    **newer.SIZES,
    **older.SIZES,
    **routed.SIZES,
    **recurrent.SIZES,
    **sparse.SIZES,
    **windowed.SIZES,
}
