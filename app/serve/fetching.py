"""Pictures of requests: from data URLs, or fetched, to the engine.

None is fetched by default: only if that was allowed, and only from public addresses. A name is
looked up once and that address is connected to, because a second look-up could return an address
of this machine.
"""

import asyncio
import base64
import binascii
import ipaddress
import socket
import ssl
from urllib.parse import SplitResult, urlsplit

import h11

from app.serve.flow import Gate
from app.serve.web.refusal import Refusal
from engine.protocol import PictureInfo, PicturePart, PutPicture
from engine.settings import MOST_PICTURE_BYTES
from engine.units import MIB

MOST_BYTES = 20 * MIB
SECONDS = 10.0
CHUNK = 1 << 16


async def fetched(url: str, domains: tuple[str, ...], param: str | None) -> bytes:
    """The bytes at an https address of one of the domains; no redirect is followed.

    Raises `Refusal`.
    """
    try:
        async with asyncio.timeout(SECONDS):
            return await _fetched(url, domains)
    except Refusal as refusal:
        refusal.param = param
        raise
    except TimeoutError:
        text = f"the download of a picture took over {SECONDS:.0f} s"
        raise Refusal(400, text, param=param) from None
    except (OSError, ValueError, h11.RemoteProtocolError):
        raise Refusal(400, "a picture could not be fetched", param=param) from None


async def _fetched(url: str, domains: tuple[str, ...]) -> bytes:
    if not domains:
        raise Refusal(400, "pictures must be data: URLs; other URLs are not fetched")
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if parts.scheme != "https" or host not in {domain.lower() for domain in domains}:
        listed = ", ".join(domains)
        raise Refusal(400, f"pictures are fetched over https from {listed} only")
    port = parts.port or 443
    address = await _address(host, port)
    reader, writer = await asyncio.open_connection(
        address, port, ssl=ssl.create_default_context(), server_hostname=host, limit=CHUNK
    )
    try:
        return await _body(parts, host, reader, writer)
    finally:
        writer.close()


async def _address(host: str, port: int) -> str:
    """The first address of a name, which must be one of the net. Raises `Refusal`, OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    address = str(found[0][4][0])
    if not is_of_the_net(address):
        raise Refusal(400, "a picture's host resolves to a private address")
    return address


def is_of_the_net(address: str) -> bool:
    """Return whether an address is public: not this machine, its network, or link-local; also not
    by an IPv6 address that stands for one of these.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        if found in ipaddress.ip_network("64:ff9b::/96"):
            inner.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
        if any(one is not None and not _is_global(one) for one in inner):
            return False
        if found.ipv4_mapped is not None:
            return True
    return _is_global(found)


def _is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not address.is_multicast


async def _body(
    parts: SplitResult, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bytes:
    connection = h11.Connection(h11.CLIENT)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = h11.Request(
        method="GET", target=target, headers=[("host", host), ("connection", "close")]
    )
    writer.write(connection.send(request) + connection.send(h11.EndOfMessage()))
    data = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.Response) and event.status_code != 200:
            raise Refusal(400, f"a picture's host responded {event.status_code}")
        elif isinstance(event, h11.Data):
            data += event.data
            if len(data) > MOST_BYTES:
                raise Refusal(400, f"a picture is larger than {MOST_BYTES // MIB} MiB")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(data)


MOST_PICTURES = 64  # of one request


class RequestPictures:
    """Sends a request's pictures to the engine; their files stay in `sent` until it is answered."""

    def __init__(self, gate: Gate, domains: tuple[str, ...], sent: dict[str, bytes]) -> None:
        self._gate, self._domains, self._sent = gate, domains, sent
        self._n = 0

    async def from_url(self, url: str, param: str | None = None) -> PicturePart:
        """A data URL, or an address of an allowed domain. Raises `Refusal`."""
        if url[:5].lower() == "data:":
            return await self.send(_of_data_url(url, param), param)
        return await self.send(await fetched(url, self._domains, param), param)

    async def from_base64(self, text: str, param: str | None = None) -> PicturePart:
        """The bytes of a picture's file. Raises `Refusal`."""
        return await self.send(_of_base64(text, param), param)

    async def send(self, data: bytes, param: str | None = None) -> PicturePart:
        """Send a picture's file to the engine. Raises `Refusal`."""
        self._n += 1
        if self._n > MOST_PICTURES:
            raise Refusal(400, f"more than {MOST_PICTURES} pictures in one request", param=param)
        if len(data) > MOST_PICTURE_BYTES:
            text = f"a picture is larger than {MOST_PICTURE_BYTES // MIB} MiB"
            raise Refusal(413, text, param=param)
        info: PictureInfo = await self._gate.get(PutPicture(0, data))
        self._sent[info.digest] = data
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
