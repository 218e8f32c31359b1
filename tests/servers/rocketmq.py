"""RocketMQ: a name server and a broker, each a process of its own, from the jars of Maven Central."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from sqlengine.broker.rocketmq.client import RocketClient
from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.broker.rocketmq.tls import Tls
from sqlengine.broker.rocketmq.wire import Account
from tests.servers.process import ServerProcess, free_ports, is_free, is_open
from tests.servers.setup import Jars

JARS: Final = Jars("rocketmq")
_JAVA: Final = (
    "java", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+PerfDisableSharedMem",
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    # By itself it makes a key and a certificate at each start, in three seconds.
    "-Dtls.server.mode=disabled",
    # A machine for tests may have little space left.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
)  # fmt: skip


class _Java(ServerProcess):
    """A main class of RocketMQ with a file of settings. What it logs itself is below its folder."""

    main: str
    memory: Sequence[str]
    options: Sequence[str] = ()

    def settings(self) -> Mapping[str, str]:
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        java = [*_JAVA, *self.memory, *self.options, f"-Duser.home={self.folder}", *JARS.java()]
        return [*java, self.main, "-c", "server.conf"]

    def environment(self) -> Mapping[str, str]:
        return {"ROCKETMQ_HOME": str(self.folder), "NAMESRV_ADDR": ""}

    def prepare(self) -> None:
        JARS.path()
        lines = (f"{key}={value}" for key, value in self.settings().items())
        (self.folder / "server.conf").write_text("\n".join(lines) + "\n")


class NameServer(_Java):
    """Says which broker has which topics."""

    name = "rocketmq-name-server"
    main = "org.apache.rocketmq.namesrv.NamesrvStartup"
    memory = ("-Xmx64m", "-XX:MaxDirectMemorySize=32m")

    def settings(self) -> Mapping[str, str]:
        return {
            "listenPort": str(self.port),
            "bindAddress": "127.0.0.1",
            "kvConfigPath": str(self.folder / "values.json"),
            "configStorePath": str(self.folder / "stored.properties"),
        }


class RocketBroker(_Java):
    """A broker that the name server at port `names` knows. Topics are not made by themselves."""

    name = "rocketmq-broker"
    main = "org.apache.rocketmq.broker.BrokerStartup"
    more_ports = 1  # for copies of itself
    memory = ("-Xms96m", "-Xmx384m", "-XX:MaxDirectMemorySize=256m")

    def __init__(
        self,
        folder: Path,
        called: str,
        client: Callable[[], RocketClient],
        names: int,
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(folder)
        # It listens at the second port below its own, too.
        while not is_free(self.port - 2):
            self.port = free_ports(1)[0]
        self._names, self.called, self._settings = names, called, settings
        self._client = client

    def ready(self) -> bool:
        if not is_open(self.port):
            return False
        try:
            with self._client() as client:
                return self.called in client.brokers()
        except RocketError:
            return False

    def settings(self) -> Mapping[str, str]:
        return {
            "brokerClusterName": "tests",
            "brokerName": self.called,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": str(self.port),
            "haListenPort": str(self.other_ports[0]),
            "namesrvAddr": f"127.0.0.1:{self._names}",
            "storePathRootDir": str(self.folder / "store"),
            "storePathCommitLog": str(self.folder / "store" / "commitlog"),
            "autoCreateTopicEnable": "false",
            "registerNameServerPeriod": "10000",
            "mappedFileSizeCommitLog": "67108864",
            "mappedFileSizeConsumeQueue": "600000",
            "mappedFileSizeTimerLog": "1048576",
            "maxHashSlotNum": "100000",
            "maxIndexNum": "400000",
            "maxOffsetMapSize": "4194304",
            "compactionMappedFileSize": "16777216",
            "compactionCqMappedFileSize": "1048576",
            "diskMaxUsedSpaceRatio": "95",
            "maxMessageSize": "16777216",
            # A machine that does ten other things at once is no reason to refuse.
            "osPageCacheBusyTimeOutMills": "30000",
            "waitTimeMillsInSendQueue": "30000",
            "waitTimeMillsInPullQueue": "30000",
            "enablePropertyFilter": "true",
            **self._settings,
        }


class RocketServer:
    """A name server and brokers behind it.

    `brokers`: their names; `settings`: of all of them; `account` and `tls`: how they are asked;
    `options`: of Java, for all."""

    def __init__(
        self,
        folder: Path,
        brokers: Sequence[str] = ("broker-a",),
        settings: Mapping[str, str] | None = None,
        account: Account | None = None,
        tls: Tls | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._client = partial(RocketClient, account=account, tls=tls)
        self.names = NameServer(folder / "names")
        self.brokers = [
            RocketBroker(folder / name, name, self.client, self.names.port, settings or {})
            for name in brokers
        ]
        for server in (self.names, *self.brokers):
            server.options = options

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.names.port}"

    @property
    def running(self) -> bool:
        return all(server.running for server in (self.names, *self.brokers))

    def client(self) -> RocketClient:
        """Returns a client, which the caller closes."""
        return self._client(self.address)

    def start(self) -> Self:
        """Starts all of them that do not run, or none."""
        try:
            for server in (self.names, *self.brokers):
                if not server.running:
                    server.start()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Ends all of them at once (SIGKILL)."""
        for server in (*self.brokers, self.names):
            server.kill()
