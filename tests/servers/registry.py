"""A real schema registry, Apicurio, which speaks Confluent's API: for the long tests."""

from urllib.request import urlopen

from tests.servers import places
from tests.servers.process import ServerProcess

API = "/apis/ccompat/v7"
PING_SECONDS = 5
JAVA_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Registry(ServerProcess):
    """Keeps its schemas in memory; they are gone when it ends."""

    name = "registry"
    start_seconds = 240

    def command(self) -> list[str]:
        """Return the command line of the registry."""
        listener = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        java = str(places.java(places.REGISTRY_JAVA_VERSION))
        jar = str(places.registry_home() / "quarkus-run.jar")
        return [java, *JAVA_OPTIONS, *listener, "-jar", jar]

    def address_at(self, endpoint: str) -> str:
        """Return the URL that clients of Confluent's registry take."""
        return f"http://{endpoint}{API}"

    def ping(self) -> None:
        """List the subjects."""
        with urlopen(f"{self.address}/subjects", timeout=PING_SECONDS) as answer:
            answer.read()
