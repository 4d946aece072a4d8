"""How requests to Coinbase are signed."""

import base64
import hashlib
import hmac

from tardis_machine.model.errors import RequestError


def signed(text: str, secret: str, variable: str) -> str:
    """Sign a text with a secret that a variable holds.

    Raises:
        RequestError: the secret is no base64 text.
    """
    try:
        key = base64.b64decode(secret, validate=True)
    except ValueError as error:
        raise RequestError(f"{variable} must be base64 text.") from error
    return base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()
