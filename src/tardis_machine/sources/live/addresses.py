"""Where a venue's address is asked: there, or at a gateway that stands for all venues."""

from urllib.parse import urlsplit

_SOCKET_SCHEMES = {"http": "ws", "https": "wss"}


def reachable(url: str, gateway: str | None) -> str:
    """Return the address to connect to.

    With a gateway, `wss://HOST/PATH?QUERY` becomes `ws://GATEWAY/HOST/PATH?QUERY`, and an https
    address the same with http; a gateway with TLS keeps it.
    """
    if gateway is None:
        return url
    asked, base = urlsplit(url), urlsplit(gateway)
    scheme = _SOCKET_SCHEMES[base.scheme] if asked.scheme in ("ws", "wss") else base.scheme
    query = f"?{asked.query}" if asked.query else ""
    path = asked.path or "/"
    return f"{scheme}://{base.netloc}{base.path.rstrip('/')}/{asked.netloc}{path}{query}"
