"""A broker over a data folder and a cluster of RocketMQ: topics of users, and those of commands,
are in the cluster; what belongs to the checkpoints of the engine stays in the folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Never, Required, TypedDict, Unpack

from sqlengine.broker.base import (
    Appended,
    Column,
    LookupResult,
    Records,
    ShardInfo,
    TopicInfo,
    TopicOptions,
    await_records,
    check_stamps,
    is_system,
)
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.broker.errors import BrokerError, topic_exists
from sqlengine.broker.on_rocketmq.address import ClusterAddress
from sqlengine.broker.on_rocketmq.kept import Kept
from sqlengine.broker.on_rocketmq.names import KEPT, is_in_cluster
from sqlengine.broker.on_rocketmq.topics import ClusterTopics
from sqlengine.broker.ownership import Fence
from sqlengine.broker.storage.codec import Payload, check
from sqlengine.broker.storage.compression import Compression
from sqlengine.broker.storage.encoded import batches_of
from sqlengine.broker.storage.excerpts import Excerpt
from sqlengine.broker.storage.reading import Batches, ReadBounds
from sqlengine.broker.topics import Definition
from sqlengine.system.disk import MACHINE, Disk
from sqlengine.system.durability import Fsync
from sqlengine.system.threads import THREADS, Threads


class _Stamps(TypedDict, total=False):
    """The time, the writer and the claims of a batch that is appended: see `Broker.append`."""

    timestamp_ms: Required[int]
    writer: str | None
    epoch: int | None
    fence: Fence | None


class _Appending(_Stamps, total=False):
    """All that `Broker.append` is given by name."""

    keys: Column | None
    compression: Compression | None


class RocketBroker(EmbeddedBroker):
    """A `Broker` in which every topic is either in the data folder or in the cluster, by its name.

    Groups, their members and committed offsets are those of this server: they are in the folder.
    BrokerError for a folder that has topics of users of its own, and BrokerAway where no server of
    the cluster answers."""

    may_be_away: ClassVar[bool] = True

    def __init__(
        self,
        folder: Path | str,
        address: ClusterAddress,
        *,
        fsync: Fsync = "none",
        clock: Callable[[], int] = system_clock,
        segment_bytes: int = 64 << 20,
        disk: Disk = MACHINE,
        threads: Threads = THREADS,
    ) -> None:
        super().__init__(
            folder,
            fsync=fsync,
            clock=clock,
            segment_bytes=segment_bytes,
            disk=disk,
            threads=threads,
        )
        try:
            self._refuse_topics_of_users()
            kept = self._open_kept()
            self.cluster = ClusterTopics(address, kept, self._appends.notify)
            self.cluster.check()
        except BaseException:
            super().close()
            raise

    def _refuse_topics_of_users(self) -> None:
        own = sorted(filter(is_in_cluster, super().topic_names()))
        if own:
            raise BrokerError(
                f"topics of this data folder are in it, and not in RocketMQ: {', '.join(own[:5])}",
                hint="start without --broker, or with an empty data folder",
            )

    def _open_kept(self) -> Kept:
        self.create_topic(KEPT, compacted=True, if_not_exists=True)

        def put(key: bytes, value: bytes | None) -> None:
            self.append(KEPT, 0, [value], keys=[key], timestamp_ms=self._clock())

        return Kept(self.read_latest(KEPT), put)

    def _is_kept_here(self, topic: str) -> bool:
        return not is_in_cluster(topic)

    # ---- topics ----------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        shards: int = 1,
        *,
        compacted: bool = False,
        if_not_exists: bool = False,
        **options: Unpack[TopicOptions],
    ) -> TopicInfo:
        """See `Broker`. Topics of the cluster have no options: their brokers have them."""
        if not is_in_cluster(name):
            return super().create_topic(
                name, shards, compacted=compacted, if_not_exists=if_not_exists, **options
            )
        if self._new_in_cluster(name, shards, compacted, if_not_exists, options) is not None:
            self.cluster.create(name, shards)
        return self.cluster.info(name)

    def new_definition(
        self,
        name: str,
        shards: int,
        *,
        compacted: bool,
        if_not_exists: bool,
        **options: Unpack[TopicOptions],
    ) -> Definition | None:
        if not is_in_cluster(name):
            return super().new_definition(
                name, shards, compacted=compacted, if_not_exists=if_not_exists, **options
            )
        return self._new_in_cluster(name, shards, compacted, if_not_exists, options)

    def _new_in_cluster(
        self, name: str, shards: int, compacted: bool, if_not_exists: bool, options: TopicOptions
    ) -> Definition | None:
        """See `new_definition`, for a topic of the cluster."""
        if self.cluster.is_there(name):
            if not if_not_exists:
                raise topic_exists(name)
            return None
        if compacted:
            raise BrokerError(
                f"topic {name!r} would be in RocketMQ, and cannot be compacted",
                hint="use a table with 'connector' = 'rocketmq' and 'upsert' = 'true'",
            )
        limits = any(value is not None for key, value in options.items() if key != "compression")
        if limits and not is_system(name):  # nobody has asked for those of commands
            _refuse_options(name)
        self.cluster.check_new(name, shards)
        return Definition(name, shards)

    def changed_definition(self, name: str, **changes: Unpack[TopicOptions]) -> Definition:
        if is_in_cluster(name):
            self.cluster.logs(name)
            _refuse_options(name)
        return super().changed_definition(name, **changes)

    def require_deletable(self, name: str) -> None:
        if is_in_cluster(name):
            self.cluster.require_known(name)
        else:
            super().require_deletable(name)

    def delete_topic(self, name: str) -> None:
        if not is_in_cluster(name):
            super().delete_topic(name)
            return
        self.require_deletable(name)
        self.cluster.delete(name)
        with self._definitions:
            self._offsets.remove_topic(name)
            self._coordinator.remove_topic(name)

    def topics(self) -> list[TopicInfo]:
        """See `Broker`. Of the cluster's topics those that were used here."""
        found = [self._described(name) for name in self.cluster.names()]
        return sorted([*super().topics(), *found], key=lambda info: info.name)

    def _described(self, name: str) -> TopicInfo:
        try:
            return self.cluster.info(name)
        except BrokerError as error:
            return TopicInfo(name, 0, (), (), 0, compacted=False, damage=error.with_hint)

    def topic_names(self) -> frozenset[str]:
        return super().topic_names().union(self.cluster.names())

    def topic(self, name: str) -> TopicInfo:
        return self.cluster.info(name) if is_in_cluster(name) else super().topic(name)

    def shards(self, topic: str) -> list[ShardInfo]:
        return self.cluster.shards(topic) if is_in_cluster(topic) else super().shards(topic)

    def _shards_of(self, topic: str) -> int:
        return len(self.cluster.logs(topic)) if is_in_cluster(topic) else super()._shards_of(topic)

    def _require_shard(self, topic: str, shard: int) -> None:
        if is_in_cluster(topic):
            self.cluster.log(topic, shard)
        else:
            super()._require_shard(topic, shard)

    def move_shard(self, topic: str, shard: int, folder: Path, *, data: bool = False) -> None:
        if is_in_cluster(topic):
            raise BrokerError(
                f"topic {topic!r} is in RocketMQ",
                hint="its brokers say where messages are: storePathRootDir",
            )
        super().move_shard(topic, shard, folder, data=data)

    def hold(self, topic: str) -> bool:
        return self.cluster.hold(topic)

    # ---- records ---------------------------------------------------------------------------------

    def append(
        self, topic: str, shard: int, values: Column, **given: Unpack[_Appending]
    ) -> Appended:
        """See `Broker`. What is in the cluster is not packed: other clients read it."""
        if not is_in_cluster(topic):
            return super().append(topic, shard, values, **given)
        keys, time_ms = given.get("keys"), given["timestamp_ms"]
        writer, epoch = given.get("writer"), given.get("epoch")
        self.cluster.log(topic, shard)
        check_stamps(time_ms, writer, epoch)
        with self._fenced(given.get("fence")):
            return self.cluster.append(topic, shard, values, keys, time_ms, writer, epoch)

    def append_payload(
        self, topic: str, shard: int, payload: Payload, **stamps: Unpack[_Stamps]
    ) -> Appended:
        if not is_in_cluster(topic):
            return super().append_payload(topic, shard, payload, **stamps)
        parts = check(payload)
        return self.append(topic, shard, parts.values, keys=parts.keys, **stamps)

    def read(
        self,
        topic: str,
        shard: int,
        offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 8 << 20,
        until: int | None = None,
    ) -> Records | None:
        """See `Broker`. BrokerAway where a broker of the cluster does not answer."""
        bounds = ReadBounds(max_records, max_bytes, until)
        if is_in_cluster(topic):
            return self.cluster.read(topic, shard, offset, bounds)
        return super().read(
            topic, shard, offset, max_records=max_records, max_bytes=max_bytes, until=until
        )

    def read_batches(
        self, topic: str, shard: int, offset: int, limits: ReadBounds
    ) -> Batches | None:
        if not is_in_cluster(topic):
            return super().read_batches(topic, shard, offset, limits)
        records = self.cluster.read(topic, shard, offset, limits)
        return None if records is None else batches_of(records)

    def excerpts(
        self, topic: str, shard: int, stops: Sequence[int], folder: Path
    ) -> list[Excerpt] | None:
        return None if is_in_cluster(topic) else super().excerpts(topic, shard, stops, folder)

    def read_latest(self, topic: str) -> dict[bytes, bytes]:
        self._require_compacted(topic)
        return super().read_latest(topic)

    def lookup(self, topic: str, key: bytes) -> LookupResult | None:
        self._require_compacted(topic)
        return super().lookup(topic, key)

    def compact(self, topic: str) -> None:
        self._require_compacted(topic)
        super().compact(topic)

    def _require_compacted(self, topic: str) -> None:
        if is_in_cluster(topic):
            self.cluster.logs(topic)
            raise BrokerError(
                f"topic {topic!r} is not compacted",
                detail="it is in RocketMQ",
                hint="use a table with 'connector' = 'rocketmq' and 'upsert' = 'true'",
            )

    def begin_offset(self, topic: str, shard: int) -> int:
        if is_in_cluster(topic):
            return self.cluster.log(topic, shard).begin
        return super().begin_offset(topic, shard)

    def wait_for_records(self, topic: str, shard: int, offset: int, timeout_s: float) -> bool:
        if not is_in_cluster(topic):
            return super().wait_for_records(topic, shard, offset, timeout_s)
        return await_records(self, topic, shard, offset, timeout_s)

    def end_offset(self, topic: str, shard: int) -> int:
        if is_in_cluster(topic):
            return self.cluster.log(topic, shard).end
        return super().end_offset(topic, shard)

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        if is_in_cluster(topic):
            return self.cluster.last_epoch(topic, shard, writer)
        return super().last_epoch(topic, shard, writer)

    def offset_for_time(self, topic: str, shard: int, timestamp_ms: int) -> int:
        if is_in_cluster(topic):
            return self.cluster.log(topic, shard).at_time(timestamp_ms)
        return super().offset_for_time(topic, shard, timestamp_ms)

    def trim(self, topic: str, shard: int, before: int) -> None:
        if is_in_cluster(topic):
            _refuse_options(topic)
        super().trim(topic, shard, before)

    def close(self) -> None:
        try:
            self.cluster.close()
        finally:
            super().close()


def _refuse_options(topic: str) -> Never:
    raise BrokerError(
        f"topic {topic!r} is in RocketMQ, which keeps messages as its brokers are set",
        detail="a topic has no retention, no largest size and no options of its own there",
        hint="set 'fileReservedTime' of the brokers, and leave the option out",
    )
