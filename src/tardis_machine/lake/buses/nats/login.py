"""Authentication to a NATS server."""

import base64
import re
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]

from tardis_machine.buses.nats.client import has_tls
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.lake.errors import BusError

_BLOCK = re.compile(r"-{3,}BEGIN [^-]+-{3,}\s+(\S+)\s+-{3,}END")


def login(settings: NatsSettings, nonce: str) -> dict[str, Any]:
    """Return the credentials in CONNECT; NKeys sign the nonce."""
    if settings.token is not None:
        return {"auth_token": settings.token.reveal()}
    if settings.password is not None:
        return {"user": settings.user, "pass": settings.password.reveal()}
    if settings.creds is not None:
        token, seed = _read_creds(settings.creds)
        return {"jwt": token, **_signed(seed, nonce)}
    if settings.nkey_seed is not None:
        seed = settings.nkey_seed.read_text().strip()
        public: bytes = _key(seed).public_key
        return {"nkey": public.decode(), **_signed(seed, nonce)}
    return {}


def wants_tls(settings: NatsSettings, scheme: str, info: dict[str, Any]) -> bool:
    """Say whether a connection must be encrypted."""
    is_asked = scheme == "tls" or settings.tls_first or bool(info.get("tls_required"))
    return is_asked or has_tls(settings)


def _read_creds(path: Path) -> tuple[str, str]:
    """Return the token and the seed of a credentials file."""
    found = _BLOCK.findall(path.read_text())
    if len(found) < 2:
        raise BusError(f"nats-creds: {path} contains no JWT and NKey seed.")
    return found[0], found[1]


def _signed(seed: str, nonce: str) -> dict[str, str]:
    signature = _key(seed).sign(nonce.encode())
    return {"sig": base64.urlsafe_b64encode(signature).decode().rstrip("=")}


def _key(seed: str) -> Any:
    try:
        return nkeys.from_seed(bytearray(seed.encode()))
    except (nkeys.NkeysError, ValueError) as error:
        raise BusError("NATS: nats-nkey-seed is not a valid NKey seed.") from error
