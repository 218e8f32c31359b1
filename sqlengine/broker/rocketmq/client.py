"""A client of a cluster: asks name servers which broker has what, and brokers for the rest."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple, Self, TypeVar

import msgspec

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.connection import Connection
from sqlengine.broker.rocketmq.errors import Refused, RocketAway, RocketError
from sqlengine.broker.rocketmq.tls import Tls
from sqlengine.broker.rocketmq.wire import Account, Answer
from sqlengine.system.back_off import BackOff

# Seconds that a broker has to put into queues what it has stored, and between two looks.
_SETTLES_S, _LOOK_S = 10.0, 0.02
_MASTER: Final = 0
_READABLE, _WRITABLE = 4, 2
# Servers may write numbers as names in JSON.
_BARE_NAME: Final = re.compile(rb"([{,])(-?\d+):")
_PORT: Final = ":"


class Queue(NamedTuple):
    """A queue of a topic: that of a broker with this number."""

    broker: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.broker}{_PORT}{self.number}"


def queue_of(name: str) -> Queue:
    """Returns the queue of that name."""
    broker, _, number = name.rpartition(_PORT)
    return Queue(broker, int(number))


@dataclass(frozen=True)
class Route:
    """The queues of a topic, in order: those that can be read, and those that can be written."""

    readable: tuple[Queue, ...]
    writable: tuple[Queue, ...]


class _QueueData(msgspec.Struct, rename="camel"):
    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


class _BrokerData(msgspec.Struct, rename="camel"):
    broker_name: str
    broker_addrs: dict[str, str]


class _RouteData(msgspec.Struct, rename="camel"):
    queue_datas: list[_QueueData]
    broker_datas: list[_BrokerData]


class _StateData(msgspec.Struct):
    table: dict[str, str]


class _NamesData(msgspec.Struct, rename="camel"):
    topic_list: list[str]


class _ClusterData(msgspec.Struct, rename="camel"):
    broker_addr_table: dict[str, _BrokerData]


@dataclass
class _Peer:
    """A server: the connection to it, and when another one may be tried."""

    address: str
    connection: Connection | None = None
    pauses: BackOff = field(default_factory=BackOff)
    lost: Connection | None = None  # the one after which there is a pause
    lock: Lock = field(default_factory=Lock)

    def connected(self, account: Account, context: ssl.SSLContext | None) -> Connection:
        """Returns a connection, which may be lost while the next attempt is not due."""
        with self.lock:
            now, known = time.monotonic(), self.connection
            if known is not None and not known.lost:
                return known
            if known is not None and not known.ended_idle:
                if self.lost is not known:
                    self.lost = known
                    if known.connected:
                        self.pauses.works()
                    self.pauses.failed(now)
                if now < self.pauses.until:
                    return known
            self.connection = Connection(self.address, account, context)
            return self.connection


class RocketClient:
    """Asks the servers of a cluster, of which `names` lists name servers: host:port, separated by
    ;. Any thread.

    A connection that is lost is opened again when somebody asks: at once where it was not in use,
    else 1 s later at the earliest, and ever later (60 s at most) while it cannot be. `timeout_s`:
    for an answer."""

    def __init__(
        self,
        names: str,
        account: Account | None = None,
        tls: Tls | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._names = [name.strip() for name in names.split(";") if name.strip()]
        self._account = account or Account()
        self._context = None if tls is None else tls.context()
        self.timeout_s = timeout_s
        self._peers: dict[str, _Peer] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._lock = Lock()

    # ---- name servers ----------------------------------------------------------------------------

    def route(self, topic: str) -> Route:
        """Returns the queues of a topic. Refused (`codes.NO_TOPIC`) where no broker that is there
        has it, RocketAway where no name server answers."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        found = _decoded(self._named(codes.ROUTE, fields, f"topic '{topic}'").body, _RouteData)
        self._note(found.broker_datas)
        readable, writable = (
            tuple(
                Queue(data.broker_name, number)
                for data in sorted(found.queue_datas, key=lambda d: d.broker_name)
                if data.perm & allowed
                for number in range(
                    data.read_queue_nums if allowed == _READABLE else data.write_queue_nums
                )
            )
            for allowed in (_READABLE, _WRITABLE)
        )
        return Route(readable, writable)

    def brokers(self) -> list[str]:
        """Returns the names of all brokers that are there."""
        answer = self._named(codes.CLUSTER, {}, "the list of brokers")
        found = _decoded(answer.body, _ClusterData).broker_addr_table
        self._note(found.values())
        return sorted(found)

    def topics(self) -> list[str]:
        """Returns the names of all topics, those of the servers among them."""
        answer = self._named(codes.TOPIC_NAMES, {}, "the list of topics")
        return sorted(_decoded(answer.body, _NamesData).topic_list)

    def drop_route(self, topic: str) -> None:
        """Makes the name servers forget a topic. RocketAway where one of them does not answer."""
        for address in list(self._names):
            what = f"to delete topic '{topic}'"
            self._answer(self._connection(address), codes.DELETE_ROUTE, {"topic": topic}, what)

    def _note(self, brokers: Iterable[_BrokerData]) -> None:
        with self._lock:
            for data in brokers:
                self._brokers[data.broker_name] = {int(k): v for k, v in data.broker_addrs.items()}

    def _named(self, code: int, fields: Mapping[str, str], what: str) -> Answer:
        """Asks the name servers, one after the other until one answers."""
        away: RocketAway | None = None
        for address in list(self._names):
            try:
                return self._answer(self._connection(address), code, fields, what)
            except RocketAway as error:
                away = error
                # The others are asked first the next time.
                with self._lock:
                    self._names.append(self._names.pop(self._names.index(address)))
        if away is None:
            raise RocketError("no name server of RocketMQ is named")
        raise away

    # ---- brokers ---------------------------------------------------------------------------------

    def begin(
        self,
        broker: str,
        code: int,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        any_copy: bool = False,
    ) -> Future[Answer]:
        """Asks a broker; with `any_copy` one of its copies where the broker itself is not there.
        The answer comes, or RocketAway; this does not wait."""
        with self._lock:
            copies = self._brokers.get(broker, {})
        known = [copies[_MASTER]] if _MASTER in copies else []
        if any_copy and not known:
            known = [copies[number] for number in sorted(copies)]
        if not known:
            answer: Future[Answer] = Future()
            answer.set_exception(RocketAway(f"broker '{broker}' of RocketMQ is not there"))
            return answer
        return self._connection(known[0]).begin(code, fields, body)

    def call(
        self,
        broker: str,
        code: int,
        fields: Mapping[str, str],
        what: str,
        body: bytes = b"",
        *,
        any_copy: bool = False,
    ) -> Answer:
        """Returns a broker's answer. Refused where it refuses `what`, RocketAway where none
        comes."""
        begun = self.begin(broker, code, fields, body, any_copy=any_copy)
        return self.wait(begun, broker, what)

    def wait(self, answer: Future[Answer], broker: str, what: str) -> Answer:
        """Waits for what `begin` has returned, as `call` does."""
        return accepted(self.answer(answer, broker), what)

    def answer(self, answer: Future[Answer], broker: str) -> Answer:
        """Waits for what `begin` has returned, whatever it says. RocketAway where none comes in
        time: the connection is closed then, since nobody knows what it is good for."""
        try:
            return answer.result(self.timeout_s)
        except TimeoutError:
            self.drop(broker, f"no answer for {self.timeout_s:g} s")
            raise RocketAway(
                f"broker '{broker}' of RocketMQ does not answer",
                detail=f"no answer for {self.timeout_s:g} s",
            ) from None
        except RocketAway as error:
            # All that waited for a lost connection have the same one, and add to its traceback.
            raise error.with_traceback(None) from None

    def settle(self, broker: str) -> None:
        """Waits until a broker has put into its queues what it had stored when it was asked: it
        confirms messages before. RocketAway as for `call`; a broker that does not tell, or takes
        too long, is not waited for."""
        deadline, stored = time.monotonic() + _SETTLES_S, None
        while time.monotonic() < deadline:
            try:
                answer = self.call(broker, codes.STATE, {}, f"to tell the state of '{broker}'")
                state = _decoded(answer.body, _StateData).table
                end, behind = int(state["commitLogMaxOffset"]), int(state["dispatchBehindBytes"])
            except (Refused, KeyError, ValueError):
                return
            stored = end if stored is None else stored
            if end - behind >= stored:
                return
            time.sleep(_LOOK_S)

    def drop(self, broker: str, why: str) -> None:
        """Closes the connections to a broker that does not answer; others are opened."""
        with self._lock:
            addresses = list(self._brokers.get(broker, {}).values())
            peers = [self._peers[a] for a in addresses if a in self._peers]
        for peer in peers:
            if peer.connection is not None:
                peer.connection.close(why)

    def _answer(
        self, connection: Connection, code: int, fields: Mapping[str, str], what: str
    ) -> Answer:
        return accepted(connection.call(code, fields, timeout_s=self.timeout_s), what)

    def _connection(self, address: str) -> Connection:
        with self._lock:
            peer = self._peers.setdefault(address, _Peer(address))
        return peer.connected(self._account, self._context)

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            peers = list(self._peers.values())
        for peer in peers:
            if peer.connection is not None:
                peer.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def accepted(answer: Answer, what: str) -> Answer:
    """Returns an answer that says yes. Refused for any other."""
    if answer.code != codes.OK:
        raise Refused(answer.code, what, answer.remark)
    return answer


T = TypeVar("T")


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_BARE_NAME.sub(rb'\1"\2":', body), type=kind)
    except msgspec.MsgspecError as error:
        raise RocketError("a name server answers nonsense", detail=str(error)) from None
