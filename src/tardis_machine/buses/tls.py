"""TLS contexts from certificate files, and checks of the options that name them."""

import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path


def client_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return a TLS context; without `ca`, it trusts the CA certificates of the system."""
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


def file_problems(files: Mapping[str, Path | None]) -> Iterable[str]:
    """Yield the options that name a missing file."""
    for option, path in files.items():
        if path is not None and not path.is_file():
            yield f"{option}: {path} is not a file."


def pair_problems(prefix: str, cert: Path | None, key: Path | None) -> Iterable[str]:
    """Yield what is wrong when only one of certificate and key is given."""
    if (cert is None) != (key is None):
        yield f"{prefix}-cert and {prefix}-key must be given together."
