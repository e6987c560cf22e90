"""Every model whose header is made."""

from tests.engine.models.published import (
    dense,
    joint,
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
    **older.SIZES,
    **routed.SIZES,
    **recurrent.SIZES,
    **sparse.SIZES,
    **windowed.SIZES,
}
