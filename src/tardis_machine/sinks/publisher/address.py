"""Where writers and the publisher process of one server or job find each other."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tardis_machine.sinks.publisher.shared_file import SharedFile

DOORBELL, STATUS, SUPERVISION = "doorbell", "status", "supervision"


@dataclass(frozen=True)
class PublisherAddress:
    """What a worker needs to know to publish."""

    folder: Path
    """Of the doorbell and the status, removed with the publisher process."""
    root: Path
    """Where logs are."""
    instance: str
    """The server or job, for as long as it runs."""

    @property
    def doorbell(self) -> Path:
        """Return the socket on which the publisher hears that something was written."""
        return self.folder / DOORBELL

    @property
    def status(self) -> SharedFile:
        """Return the file in which the publisher says how it is doing."""
        return SharedFile(self.folder / STATUS)

    @property
    def supervision(self) -> SharedFile:
        """Return the file in which its parent says when it died."""
        return SharedFile(self.folder / SUPERVISION)


class Doorbell:
    """Tells the publisher that something was written; never waits, and a lost ring costs little."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def ring(self) -> None:
        """Wake the publisher."""
        with suppress(OSError):
            self._socket.sendto(b"!", self._path)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def is_deserted(doorbell: Path) -> bool:
    """Say whether a socket is left of a process that has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        try:
            bell.connect(str(doorbell))
        except ConnectionRefusedError:
            return True
        except OSError:
            # There is none, or it is that of another user.
            return False
    return False


def listening_doorbell(path: Path) -> socket.socket:
    """Return the socket that hears rings; it outlives any one publisher process."""
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bell.bind(str(path))
    except OSError:
        bell.close()
        raise
    bell.setblocking(False)
    return bell
