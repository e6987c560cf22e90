"""Pictures fetched for a stranger: only where it was allowed, and only from addresses of the net.

What a name means is looked up once, and that address is connected to: a second look-up could be
answered with one of this machine.
"""

from app.serve.web.refusal import Refusal


async def fetched(url: str, domains: tuple[str, ...], param: str | None) -> bytes:
    """The bytes at an https address of one of the domains. Raises `Refusal`."""
    raise Refusal(
        400, "pictures are taken as data: URLs only; addresses are not fetched", param=param
    )
