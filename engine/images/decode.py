"""From the bytes of a file to pixels."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from engine.images.plan import Size


@dataclass(frozen=True, eq=False)
class Picture:
    """What everything after decoding works on: `rgb` is uint8 [h, w, 3], read only.

    `notes` tell what was done to the file that a person may want to know: "frame 1 of 12".
    """

    rgb: NDArray[np.uint8]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> Size:
        h, w, _ = self.rgb.shape
        return Size(w, h)

    @cached_property
    def digest(self) -> str:
        """The picture's identity: SHA-256, in hex, of its size and pixels."""
        h, w, _ = self.rgb.shape
        head = w.to_bytes(4, "little") + h.to_bytes(4, "little")
        return sha256(head + np.ascontiguousarray(self.rgb).tobytes()).hexdigest()
