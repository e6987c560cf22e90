"""Pictures fetched for a stranger: only where it was allowed, and only from addresses of the net.

What a name means is looked up once, and that address is connected to: a second look-up could be
answered with one of this machine.
"""

import asyncio
import ipaddress
import socket
import ssl
from urllib.parse import SplitResult, urlsplit

import h11

from app.serve.web.refusal import Refusal
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
    asked = h11.Request(
        method="GET", target=target, headers=[("host", host), ("connection", "close")]
    )
    writer.write(connection.send(asked) + connection.send(h11.EndOfMessage()))
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
