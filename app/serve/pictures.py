"""Pictures of requests: from data URLs, or fetched where that was allowed, to the engine.

What a URL names is fetched for a stranger, so by default none is; see `fetching`.
"""

import base64
import binascii

from app.serve.flow.gate import Gate
from app.serve.web.refusal import Refusal
from engine.protocol import PictureInfo, PicturePart, PutPicture
from engine.settings import MOST_PICTURE_BYTES
from engine.units import MIB

MOST_PICTURES = 64  # of one request


class AskedPictures:
    """Brings the pictures of one request; in `brought` their files stay until that is answered."""

    def __init__(self, gate: Gate, domains: tuple[str, ...], brought: dict[str, bytes]) -> None:
        self._gate, self._domains, self._brought = gate, domains, brought
        self._n = 0

    async def from_url(self, url: str, param: str | None = None) -> PicturePart:
        """A data URL, or an address of a domain that may be asked. Raises `Refusal`."""
        if url[:5].lower() == "data:":
            return await self.bring(_of_data_url(url, param), param)
        from app.serve.fetching import fetched

        return await self.bring(await fetched(url, self._domains, param), param)

    async def from_base64(self, text: str, param: str | None = None) -> PicturePart:
        """The bytes of a picture's file. Raises `Refusal`."""
        return await self.bring(_of_base64(text, param), param)

    async def bring(self, data: bytes, param: str | None = None) -> PicturePart:
        """Hand a picture's file to the engine. Raises `Refusal`."""
        self._n += 1
        if self._n > MOST_PICTURES:
            raise Refusal(400, f"more than {MOST_PICTURES} pictures in one request", param=param)
        if len(data) > MOST_PICTURE_BYTES:
            text = f"a picture is larger than {MOST_PICTURE_BYTES // MIB} MiB"
            raise Refusal(413, text, param=param)
        info: PictureInfo = await self._gate.get(PutPicture(0, data))
        self._brought[info.digest] = data
        return PicturePart(info.digest)


def _of_data_url(url: str, param: str | None) -> bytes:
    head, comma, text = url.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise Refusal(400, "a picture must be data:image/...;base64,...", param=param)
    return _of_base64(text, param)


def _of_base64(text: str, param: str | None) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, f"a picture is not base64: {error}", param=param) from None
