"""Who is served: the host and the web page a request names, and the token it brings."""

import hmac
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from aiohttp import hdrs, web

from tardis_machine.server.settings import ServerSettings
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_ANY = "*"
_SHOWN = 100
_DOCKER_HOST = "host.docker.internal"
_IS_ACCEPTED = web.RequestKey("is_accepted", bool)


class Access:
    """Decides whether a request is answered; clients that are no browsers notice only the token."""

    def __init__(self, settings: ServerSettings) -> None:
        self._token = settings.token
        self._ports = (settings.port, settings.port + 1)
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        self._checks_host = bool(self._hosts) or is_loopback(settings.host)

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a request that is not served, None for one that is."""
        return (
            self._host_refusal(request)
            or self._origin_refusal(request)
            or self._preflight(request)
            or self._token_refusal(request)
        )

    def _host_refusal(self, request: web.Request) -> web.Response | None:
        """Refuse a name that a stranger let point to this machine."""
        host = request.headers.get(hdrs.HOST)
        if host is None or not self._checks_host:
            return None
        name = _host_name(host)
        if name in self._hosts or name == _DOCKER_HOST or is_loopback(name):
            return None
        return _forbidden(f"Host {host[:_SHOWN]!r} is not served here. Allow it: --allowed-hosts.")

    def _origin_refusal(self, request: web.Request) -> web.Response | None:
        """Refuse the web pages of others; their scripts run where this server is reachable."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            if not self._is_own(origin, request.headers.get(hdrs.HOST, "")):
                return _forbidden(
                    f"Origin {origin[:_SHOWN]!r} is not allowed. Allow it: --allowed-origins."
                )
            request[_IS_ACCEPTED] = True
        elif request.headers.get("Sec-Fetch-Site") == "cross-site":
            return _forbidden(
                "Requests of other web pages are not answered. Open the address itself, or allow "
                "the page with --allowed-origins and let its script send the request."
            )
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        if self._origins & {origin.lower(), _ANY}:
            return True
        try:
            page = urlsplit(origin)
            name, port = page.hostname or "", _port(page)
        except ValueError:
            return False
        if is_loopback(name) and is_loopback(_host_name(host)):
            return True
        return name == _host_name(host) and (page.netloc == host or port in self._ports)

    def _preflight(self, request: web.Request) -> web.Response | None:
        """Answer a browser that asks whether an allowed page may send a request."""
        asks = request.method == hdrs.METH_OPTIONS and hdrs.ORIGIN in request.headers
        if not asks:
            return None
        allowed = {
            hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST",
            hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type",
        }
        return web.Response(status=204, headers=allowed)

    def _token_refusal(self, request: web.Request) -> web.Response | None:
        """Check the client's token, if the server asks for one."""
        is_open = request.path.removesuffix("/") == "/health-check"
        if self._token is None or is_open or _is_equal(_given_token(request), self._token.reveal()):
            return None
        text = "This server asks for a token: send `Authorization: Bearer …` or `?token=…`."
        return web.json_response({"message": text}, status=401)


async def allow_page(request: web.Request, response: web.StreamResponse) -> None:
    """Let the script of an accepted web page read the response."""
    if request.get(_IS_ACCEPTED):
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = request.headers[hdrs.ORIGIN]
        response.headers[hdrs.VARY] = hdrs.ORIGIN


def warn_of_open_network(settings: ServerSettings) -> None:
    """Warn when everybody in a network may use the server."""
    if settings.token is None and not is_loopback(settings.host):
        log.warning(
            "server is open to the network without a token; set --token or bind 127.0.0.1",
            host=settings.host,
        )


def is_loopback(host: str) -> bool:
    """Say whether a name or address is that of this machine alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return the name or address of a Host header, without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _port(page: SplitResult) -> int:
    return page.port or (443 if page.scheme == "https" else 80)


def _given_token(request: web.Request) -> str:
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    scheme, _, value = header.partition(" ")
    given = value.strip() if scheme.lower() == "bearer" else header
    return given or request.query.get("token", "")


def _is_equal(given: str, token: str) -> bool:
    # A header may hold bytes that are not text.
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())


def _forbidden(text: str) -> web.Response:
    return web.json_response({"message": text}, status=403)
