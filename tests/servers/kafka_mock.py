"""librdkafka's mock cluster in a child process: a Kafka that answers with errors on request.

It speaks the real protocol, idempotence included, and keeps about 5 MiB per partition in memory.
For everything but injected errors the real broker of `tests.servers.kafka` is the better peer.
"""

import ctypes
import sys
from collections.abc import Callable
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.servers.commands import CommandedProcess, serve_commands
from tests.servers.places import MissingServerError

PRODUCER = 0
ERROR_TEXT_BYTES = 512


class Api(IntEnum):
    """Numbers of Kafka's requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22


class KafkaMock(CommandedProcess):
    """A cluster of mock brokers; their numbers start at 1. It forgets all when it is killed."""

    name = "kafka-mock"
    module = "tests.servers.kafka_mock"

    def __init__(self, brokers: int = 3) -> None:
        super().__init__()
        self.brokers = range(1, brokers + 1)

    def arguments(self) -> list[str]:
        """Return the number of brokers for the child."""
        return [str(len(self.brokers))]

    def address_at(self, endpoint: str) -> str:
        """Return the addresses of all brokers; they choose their ports themselves."""
        return str(self.call("bootstraps"))

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic on all brokers and return its name."""
        self.call("topic_create", topic=name, partitions=partitions, replicas=len(self.brokers))
        return name

    def fail(self, api: Api, *codes: int) -> None:
        """Answer the next requests of a kind with these error codes, one each."""
        self.call("push_errors", api=api, codes=codes)

    def fail_topic(self, topic: str, code: int) -> None:
        """Show a topic with an error in all metadata; 0 takes it back."""
        self.call("topic_set_error", topic=topic, code=code)

    def set_down(self, broker: int) -> None:
        """Close a broker's port and connections."""
        self.call("broker_set_down", broker=broker)

    def set_up(self, broker: int) -> None:
        """Open a broker's port again."""
        self.call("broker_set_up", broker=broker)

    def set_round_trip(self, milliseconds: int) -> None:
        """Let every answer of every broker take this long."""
        for broker in self.brokers:
            self.call("broker_set_rtt", broker=broker, milliseconds=milliseconds)

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move the leadership of a partition; clients find out by NOT_LEADER."""
        self.call("partition_set_leader", topic=topic, partition=partition, broker=broker)

    def requests_total(self, api: Api) -> int:
        """Return how many requests of a kind the brokers have seen."""
        return int(self.call("requests_total", api=api))

    def heal(self) -> None:
        """Bring every broker back, fast and without errors."""
        super().heal()
        self.call("clear_errors", apis=list(Api))
        for broker in self.brokers:
            self.set_up(broker)
        self.set_round_trip(0)


class MockCluster:
    """The cluster inside the child, through the library that confluent-kafka carries."""

    def __init__(self, brokers: int) -> None:
        self._library = _load_library()
        text = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        new_client = self._function("rd_kafka_new", ctypes.c_void_p)
        client = new_client(PRODUCER, None, text, ctypes.c_size_t(len(text)))
        new_cluster = self._function("rd_kafka_mock_cluster_new", ctypes.c_void_p)
        self._cluster = ctypes.c_void_p(new_cluster(ctypes.c_void_p(client), brokers))
        if self._cluster.value is None:
            raise RuntimeError(f"No mock cluster: {text.value.decode()}")
        self._call("start_request_tracking", result=None)

    def bootstraps(self) -> str:
        """Return the brokers' addresses."""
        addresses: bytes = self._call("cluster_bootstraps", result=ctypes.c_char_p)
        return addresses.decode()

    def topic_create(self, topic: str, partitions: int, replicas: int) -> None:
        """Create a topic."""
        _check(self._call("topic_create", topic.encode(), partitions, replicas))

    def push_errors(self, api: int, codes: list[int]) -> None:
        """Queue errors for the next requests of a kind."""
        values = (ctypes.c_int * len(codes))(*codes)
        count = ctypes.c_size_t(len(codes))
        self._call("push_request_errors_array", ctypes.c_int16(api), count, values, result=None)

    def clear_errors(self, apis: list[int]) -> None:
        """Forget queued errors."""
        for api in apis:
            self._call("clear_request_errors", ctypes.c_int16(api), result=None)

    def topic_set_error(self, topic: str, code: int) -> None:
        """Set the error that metadata shows for a topic."""
        self._call("topic_set_error", topic.encode(), code, result=None)

    def broker_set_down(self, broker: int) -> None:
        """Close a broker's port."""
        _check(self._call("broker_set_down", ctypes.c_int32(broker)))

    def broker_set_up(self, broker: int) -> None:
        """Open a broker's port."""
        _check(self._call("broker_set_up", ctypes.c_int32(broker)))

    def broker_set_rtt(self, broker: int, milliseconds: int) -> None:
        """Set how long a broker's answers take."""
        _check(self._call("broker_set_rtt", ctypes.c_int32(broker), milliseconds))

    def partition_set_leader(self, topic: str, partition: int, broker: int) -> None:
        """Set the leader of a partition."""
        _check(self._call("partition_set_leader", topic.encode(), partition, broker))

    def requests_total(self, api: int) -> int:
        """Count the requests of a kind."""
        count = ctypes.c_size_t()
        pointer = ctypes.POINTER(ctypes.c_void_p)
        requests = self._call("get_requests", ctypes.byref(count), result=pointer)
        kind = self._function("rd_kafka_mock_request_api_key", ctypes.c_int16)
        found = [kind(ctypes.c_void_p(requests[n])) for n in range(count.value)]
        self._function("rd_kafka_mock_request_destroy_array", None)(requests, count)
        return found.count(api)

    def _call(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        return self._function(f"rd_kafka_mock_{name}", result)(self._cluster, *arguments)

    def _function(self, name: str, result: Any) -> Callable[..., Any]:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise MissingServerError(
                f"{name} of librdkafka's mock cluster",
                "Its interface is experimental; install the locked version of confluent-kafka.",
            ) from None
        function.restype = result
        return function


def _load_library() -> ctypes.CDLL:
    spec = find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise MissingServerError("confluent-kafka", "Install the locked dependencies.")
    libraries = Path(spec.origin).parents[1] / "confluent_kafka.libs"
    (path,) = libraries.glob("librdkafka-*.so*")
    return ctypes.CDLL(str(path))


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeError(f"librdkafka's mock cluster answered {code}")


def main(brokers: str) -> None:
    """Run the cluster and take commands until the parent goes."""
    cluster = MockCluster(int(brokers))
    serve_commands(
        {name: getattr(cluster, name) for name in vars(MockCluster) if not name.startswith("_")}
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
