"""REST calls to exchanges, within their limits."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp

from tardis_machine.exchanges.feeds import AddressCall, RestCalls, WeightBudget
from tardis_machine.model.errors import SourceError
from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.addresses import reachable
from tardis_machine.sources.live.errors import ExchangeError
from tardis_machine.sources.live.rest.budget import Budget
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.telemetry.live_metrics import LiveMetrics

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10)
ATTEMPTS = 3
FIRST_RETRY_SECONDS = 0.25
LONGEST_RETRY_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 120.0
"""Most that is waited because an exchange says so."""

MAX_ANSWER_BYTES = 16 * 1_048_576
SHOWN_BYTES = 200

TOO_MANY, BANNED = 429, 418
RETRIED_STATUSES = frozenset({403, 408, TOO_MANY})
BAN_SECONDS = 120.0
LIMIT_SECONDS = 16.0


class RestClient:
    """Fetches what feeds need beside their sockets."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        settings: LiveSettings,
        proxy: str | None,
        timing: Timing,
        metrics: LiveMetrics,
    ) -> None:
        self._metrics = metrics
        self._session = session
        self._gateway = settings.exchange_gateway
        self._proxy = proxy
        self._timing = timing
        self._budgets: dict[str, Budget] = {}

    def budget(self, declared: WeightBudget) -> Budget:
        """Return the one budget of a venue."""
        found = self._budgets.get(declared.limit_url)
        if found is None:
            found = Budget(declared, self._get_freely, self._timing)
            self._budgets[declared.limit_url] = found
        return found

    async def fetch(self, calls: RestCalls, symbol: str) -> tuple[bytes, bool]:
        """Return the message made from an answer, and whether it had to wait for its turn.

        Raises:
            ExchangeError: the exchange refuses, does not answer, or tells nothing of use.
        """
        budget = None if calls.budget is None else self.budget(calls.budget)
        has_waited = False
        if budget is not None:
            has_waited = await budget.take(calls.weight, calls.reserve)
        body = await self._ask("GET", calls.url(symbol), budget)
        try:
            return calls.wrap(symbol, body), has_waited
        except (ValueError, SourceError) as error:
            raise ExchangeError(f"An answer about {symbol} cannot be used: {error}") from error

    async def ask_address(self, call: AddressCall) -> str:
        """Return the WebSocket address that an exchange tells.

        Raises:
            ExchangeError: the exchange refuses, does not answer, or tells none.
        """
        answer = await self._ask("POST", call.url, None)
        try:
            return call.read(answer)
        except (ValueError, LookupError) as error:
            raise ExchangeError(f"The answer of {call.url} tells no address: {error}") from error

    async def _get_freely(self, url: str) -> bytes:
        return await self._ask("GET", url, None)

    async def _ask(self, method: str, url: str, budget: Budget | None) -> bytes:
        """Ask a few times; an exchange that wants to be left alone is, up to a limit."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt(method, url, budget)
            except RetriedCallError as error:
                if attempt == ATTEMPTS or (error.wait_seconds or 0) > LONGEST_WAIT_SECONDS:
                    raise ExchangeError(str(error), wait_seconds=error.wait_seconds) from error
                delay = min(FIRST_RETRY_SECONDS * 2**attempt, LONGEST_RETRY_SECONDS)
                await self._timing.sleep(max(delay, error.wait_seconds or 0))
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, method: str, url: str, budget: Budget | None) -> bytes:
        target = reachable(url, self._gateway)
        try:
            async with self._session.request(
                method, target, proxy=self._proxy, timeout=REQUEST_TIMEOUT
            ) as response:
                if budget is not None:
                    budget.note(response.headers)
                    self._metrics.request_weight.labels(urlsplit(url).netloc).set(budget.used)
                body = await response.content.read(MAX_ANSWER_BYTES + 1)
                # A read may end before the answer does.
                while len(body) <= MAX_ANSWER_BYTES and not response.content.at_eof():
                    body += await response.content.read(MAX_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RetriedCallError(
                f"No answer from {url}: {str(error) or type(error).__name__}"
            ) from error
        if response.status == 200:
            if len(body) > MAX_ANSWER_BYTES:
                raise ExchangeError(f"The answer of {url} is longer than {MAX_ANSWER_BYTES} bytes.")
            return body
        raise _refusal(url, response.status, response.headers, body, budget)


class RetriedCallError(ExchangeError):
    """One attempt failed in a way that may pass."""


def _refusal(
    url: str, status: int, headers: Mapping[str, str], body: bytes, budget: Budget | None
) -> ExchangeError:
    shown = body[:SHOWN_BYTES].decode(errors="replace")
    text = f"{url} answered with status code {status}: {shown}"
    wait_seconds = retry_after_seconds(status, headers)
    if wait_seconds is not None and budget is not None:
        budget.block(wait_seconds)
    if status in RETRIED_STATUSES or status >= 500:
        return RetriedCallError(text, wait_seconds=wait_seconds)
    return ExchangeError(text, wait_seconds=wait_seconds)


def retry_after_seconds(status: int, headers: Mapping[str, str]) -> float | None:
    """Return how long an exchange wants not to be asked; None when it does not say."""
    text = headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    if status == BANNED:
        return BAN_SECONDS
    return LIMIT_SECONDS if status == TOO_MANY else None
