"""A Kinesis server: kinesalite by Node.js, behind the fault proxy."""

import json
from http.client import HTTPException
from typing import Any, Self
from urllib.request import Request, urlopen

from tests.servers import places
from tests.servers.kinesis_proxy import CONTENT_TYPE, PREFIX, KinesisProxy
from tests.servers.lifecycle import Lifecycle
from tests.servers.process import ServerProcess

# kinesalite's own command listens on every interface.
SCRIPT = """
const [module, options, port] = process.argv.slice(1);
require(module)(JSON.parse(options)).listen(port, "127.0.0.1");
"""
# kinesalite looks at the form of a signature and does not check it.
SIGNATURE = "AWS4-HMAC-SHA256 Credential=x,SignedHeaders=x,Signature=x"
CHANGE_MS = 5
PING_SECONDS = 10
MAX_SHARDS = 1_000
REGION = "us-east-1"
LOGIN = {
    "region_name": REGION,
    "aws_access_key_id": "AKIDTEST",
    "aws_secret_access_key": "test-secret",
}


class Kinesalite(ServerProcess):
    """The server itself; what it acknowledged survives kill -9."""

    name = "kinesis"

    def command(self) -> list[str]:
        """Return the command line of Node.js."""
        options = {
            "path": str(self.directory / "data"),
            "createStreamMs": CHANGE_MS,
            "deleteStreamMs": CHANGE_MS,
            "updateStreamMs": CHANGE_MS,
            "shardLimit": MAX_SHARDS,
        }
        module = str(places.kinesalite().parent)
        return [str(places.node()), "-e", SCRIPT, module, json.dumps(options), str(self.port)]

    def ping(self) -> None:
        """List the streams."""
        list_streams(f"http://{self.endpoint}/")


def list_streams(url: str) -> None:
    """Ask for the streams; OSError when nobody answers."""
    request = Request(url, data=b"{}")
    request.add_header("Content-Type", CONTENT_TYPE)
    request.add_header("X-Amz-Target", f"{PREFIX}ListStreams")
    request.add_header("X-Amz-Date", "20240301T000000Z")
    request.add_header("Authorization", SIGNATURE)
    with urlopen(request, timeout=PING_SECONDS) as answer:
        answer.read()


class Kinesis(Lifecycle):
    """The server and its proxy as one: `address` is the proxy's, `faults` spoils calls."""

    def __init__(self) -> None:
        self.server = Kinesalite()
        self.faults = KinesisProxy(self.server.endpoint)
        self.pause, self.resume = self.server.pause, self.server.resume
        self.address_at = self.faults.address_at

    @property
    def endpoint(self) -> str:
        """Return host and port of the proxy."""
        return self.faults.endpoint

    @property
    def address(self) -> str:
        """Return the endpoint URL for the client."""
        return self.faults.address

    @property
    def login(self) -> dict[str, Any]:
        """Return region and keys for `create_client`; any keys would do."""
        return dict(LOGIN)

    @property
    def is_running(self) -> bool:
        """Say whether the server is alive."""
        return self.server.is_running

    def start(self) -> Self:
        """Start the server, then open the proxy."""
        self.server.start()
        self.faults.start()
        return self

    def stop(self) -> None:
        """Refuse clients, then end the server; the data stays."""
        self.faults.stop()
        self.server.stop()

    def kill(self) -> None:
        """Refuse clients and kill the server; the data stays."""
        self.faults.stop()
        self.server.kill()

    def restart(self) -> None:
        """Stop and start again on the same port and data."""
        self.stop()
        self.start()

    def heal(self) -> None:
        """Bring the server back and forget every fault; what does not answer then starts anew."""
        self.server.heal()
        self.faults.heal()
        try:
            list_streams(self.address)
        except (OSError, HTTPException):
            self.restart()

    def close(self) -> None:
        """End both and remove the data."""
        self.faults.close()
        self.server.close()
