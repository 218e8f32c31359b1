"""The broker within the server's process: topics as segment files in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import ClassVar, Unpack

import msgspec

from sqlengine.broker.base import (
    Addition,
    Appended,
    Column,
    TopicInfo,
    TopicOptions,
    appended,
    check_stamps,
    check_topic_name,
)
from sqlengine.broker.coordinator import TOPIC as GROUPS
from sqlengine.broker.coordinator import Coordinator, Group, check_name
from sqlengine.broker.errors import (
    BrokerError,
    Fenced,
    cannot_write,
    raising_broker_full,
    topic_exists,
    topic_full,
)
from sqlengine.broker.groups import TOPIC as OFFSETS
from sqlengine.broker.groups import GroupOffsets
from sqlengine.broker.lock import FolderLock
from sqlengine.broker.notifications import AppendNotifier, Flusher
from sqlengine.broker.open_topics import OpenTopics
from sqlengine.broker.ownership import SESSION_MS, Fence, GroupInfo, Membership
from sqlengine.broker.storage import compaction, retention
from sqlengine.broker.storage.chain import Options
from sqlengine.broker.storage.codec import NO_EPOCH, Payload, compress, encode
from sqlengine.broker.storage.compression import Compression
from sqlengine.broker.storage.shard import ShardLog
from sqlengine.broker.topics import (
    Definition,
    Topic,
    check_definition,
    create_topic,
    open_topics,
    remove_topic,
)
from sqlengine.system.data_folder import prepare_folder
from sqlengine.system.disk import MACHINE, Disk
from sqlengine.system.durability import Fsync
from sqlengine.system.threads import THREADS, Threads

_UNFENCED = nullcontext()


def system_clock() -> int:
    """Returns milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class EmbeddedBroker(OpenTopics):
    """A `Broker` over `folder`, which it creates (private to the user) and locks.

    Everything appended survives the death of the process. `fsync` decides what survives a power
    failure: 'none' nothing for sure; 'interval' what was appended until `fsync_interval_s` ago (of
    later records some topics may have kept more than others); 'epoch' every append that has
    returned. `clock` (ms) is for retention and tombstones, that of `threads` for members' sessions;
    records carry the timestamp of their append.
    """

    may_be_away: ClassVar[bool] = False

    def __init__(
        self,
        folder: Path | str,
        *,
        fsync: Fsync = "none",
        clock: Callable[[], int] = system_clock,
        segment_bytes: int = 64 << 20,
        fsync_interval_s: float = 0.2,
        disk: Disk = MACHINE,
        threads: Threads = THREADS,
    ) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._clock = clock
        self._threads = threads
        self._options = Options(
            segment_bytes, durable=fsync == "epoch", synced=fsync != "none", disk=disk
        )
        self._appends = AppendNotifier()
        self._flusher: Flusher | None = None
        self._lock = FolderLock(self._folder, disk, lasting=self._options.synced)
        try:
            with raising_broker_full(f"data folder '{folder}'"):
                prepare_folder(self._folder, disk)
            self._topics, self._damaged = open_topics(self._parent, self._trash, self._options)
            self._offsets = self._open_offsets()
            self._coordinator = self._open_groups()
        except BaseException:
            self._lock.release()
            raise
        if fsync == "interval":
            self._flusher = Flusher(self._sync_logs, fsync_interval_s, threads)

    def _open_offsets(self) -> GroupOffsets:
        self.create_topic(OFFSETS, compacted=True, if_not_exists=True)

        def append(keys: list[bytes], values: list[bytes | None]) -> None:
            self.append(OFFSETS, 0, values, keys=keys, timestamp_ms=self._clock())

        offsets = GroupOffsets(self._log(OFFSETS, 0), append, lambda: self.compact(OFFSETS))
        for topic in offsets.topics() - self._topics.keys() - self._damaged.keys():
            if self._is_kept_here(topic):
                offsets.remove_topic(topic)
        offsets.cut_back(
            lambda topic, shard: self._log(topic, shard).end if topic in self._topics else None
        )
        return offsets

    def _open_groups(self) -> Coordinator:
        kept = self.read_latest(GROUPS) if GROUPS in self._topics else {}
        known = {
            name.decode(): msgspec.json.decode(state, type=Group) for name, state in kept.items()
        }

        def save(name: str, state: Group) -> None:
            self.append(
                GROUPS,
                0,
                [msgspec.json.encode(state)],
                keys=[name.encode()],
                timestamp_ms=self._clock(),
            )

        def up_ms() -> int:
            return int(self._threads.now() * 1000)

        return Coordinator(known, save, lambda topic: self._shards_of(topic), up_ms)

    def _is_kept_here(self, topic: str) -> bool:
        """True if the data folder is where the topic is, or would be."""
        return True

    def _shards_of(self, topic: str) -> int:
        return self._topic(topic).definition.shards

    def _require_shard(self, topic: str, shard: int) -> None:
        """Raises as every method does for a topic or a shard that is not there."""
        self._log(topic, shard)

    @property
    def _parent(self) -> Path:
        return self._folder / "topics"

    @property
    def _trash(self) -> Path:
        return self._folder / "trash"

    # ---- what refuses changes, also in dry runs --------------------------------------------------

    def new_definition(
        self,
        name: str,
        shards: int,
        *,
        compacted: bool,
        if_not_exists: bool,
        **options: Unpack[TopicOptions],
    ) -> Definition | None:
        """Returns the definition of a topic that is to be created; None where it is there, and may
        be. Raises as `create_topic`."""
        check_topic_name(name)
        definition = Definition(name, shards, compacted, **options)
        check_definition(definition)
        if name in self._damaged:
            raise self._damaged[name].error
        if name not in self._topics:
            return definition
        if not if_not_exists:
            raise topic_exists(name)
        return None

    def changed_definition(self, name: str, **changes: Unpack[TopicOptions]) -> Definition:
        """Returns the definition of a topic with other options. Raises as `alter_topic`."""
        definition = msgspec.structs.replace(self._topic(name).definition, **changes)
        check_definition(definition)
        return definition

    def require_deletable(self, name: str) -> None:
        """Raises as `delete_topic`."""
        if name not in self._damaged:
            self._topic(name)

    @contextmanager
    def committing(
        self, group: str, topic: str, offsets: Mapping[int, int], *, fence: Fence | None = None
    ) -> Iterator[None]:
        """Keeps all as it is that lets these offsets be committed. Raises as `commit`."""
        check_name("group", group)
        with self._definitions:  # a deletion of the topic meanwhile would leave the offsets behind
            for shard, offset in offsets.items():
                self._require_shard(topic, shard)
                if not 0 <= offset < 2**63:
                    raise BrokerError(f"{offset} is not an offset", detail="offsets count from 0")
            places = [(topic, shard) for shard in offsets]
            if fence is not None and fence.group != group:
                raise Fenced(
                    f"a member of group {fence.group!r} does not commit for group {group!r}"
                )
            owned = self._coordinator.guarded_unowned(group, places)
            with owned if fence is None else self._coordinator.guarded(fence, places):
                yield

    def deleting_group(self, group: str) -> AbstractContextManager[None]:
        """Keeps the group without members. Raises as `delete_group`."""
        return self._coordinator.without_members(group)

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
        with self._definitions:
            definition = self.new_definition(
                name, shards, compacted=compacted, if_not_exists=if_not_exists, **options
            )
            if definition is not None:
                try:
                    self._topics[name] = create_topic(
                        self._parent, self._trash, definition, self._options
                    )
                except OSError as error:
                    raise cannot_write(f"topic {name!r}", error) from error
            return self._topics[name].info()

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        with self._definitions:
            definition, topic = self.changed_definition(name, **changes), self._topic(name)
            try:
                topic.alter(definition)
            except OSError as error:
                raise cannot_write(f"topic {name!r}", error) from error
            return topic.info()

    def move_shard(self, topic: str, shard: int, folder: Path, *, data: bool = False) -> None:
        """Directs new records of a shard to a folder below `folder` (absolute, on any disk); with
        `data` moves the old ones, too.

        Offsets stay, and readers and writers go on meanwhile. The folder must exist at each start.
        """
        if not folder.is_absolute():
            raise BrokerError(
                f"the folder {str(folder)!r} is not absolute", hint="write it from / on"
            )
        with self._definitions:
            known = self._topic(topic)
            try:
                known.move(shard, folder)
            except OSError as error:
                raise cannot_write(f"folder {str(folder)!r}", error) from error
        if data:
            known.log(shard).move_segments()

    def delete_topic(self, name: str) -> None:
        with self._definitions:
            self.require_deletable(name)
            topic = self._damaged.pop(name, None) or self._topic(name)
            self._topics.pop(name, None)
            remove_topic(topic, self._trash, self._options.disk)
            self._offsets.remove_topic(name)
            self._coordinator.remove_topic(name)

    def append(
        self,
        topic: str,
        shard: int,
        values: Column,
        *,
        keys: Column | None = None,
        timestamp_ms: int,
        writer: str | None = None,
        epoch: int | None = None,
        fence: Fence | None = None,
        compression: Compression | None = None,
    ) -> Appended:
        payload = encode(values, keys)
        packed = compression or self._topic(topic).definition.compression
        if packed != "none":
            payload = compress(payload, packed)
        return self.append_payload(
            topic,
            shard,
            payload,
            timestamp_ms=timestamp_ms,
            writer=writer,
            epoch=epoch,
            fence=fence,
        )

    def append_all(self, additions: Sequence[Addition]) -> list[Appended]:
        return [appended(self, addition) for addition in additions]

    def append_payload(
        self,
        topic: str,
        shard: int,
        payload: Payload,
        *,
        timestamp_ms: int,
        writer: str | None = None,
        epoch: int | None = None,
        fence: Fence | None = None,
    ) -> Appended:
        """Appends a batch that the caller has encoded; see `append`."""
        if self._flusher is not None:
            self._flusher.check()
        known = self._topic(topic)
        log = known.log(shard)
        check_stamps(timestamp_ms, writer, epoch)
        if known.definition.compacted and payload.rows and not payload.every_key:
            raise BrokerError(f"topic {topic!r} is compacted: every value needs a key")
        if not payload.rows and writer is None:
            return Appended(log.end, log.end)
        most = known.definition.max_bytes
        if (
            most is not None
            and known.size + payload.length(b"") > most
            and not log.has(writer, epoch)
        ):
            raise topic_full(topic, known.size, most)
        segments = len(log.segments)
        with self._fenced(fence):
            appended = log.append(
                payload, timestamp_ms, writer, NO_EPOCH if epoch is None else epoch
            )
        self._appends.notify(topic)
        # Retention is checked when a segment was closed, not at each append. The batch is appended
        # whether it succeeds or not: it runs again later.
        if len(log.segments) > segments:
            with suppress(BrokerError, OSError):
                self._retain(known, log)
        return appended

    def _fenced(self, fence: Fence | None) -> AbstractContextManager[object]:
        """Keeps the claims of a fence within. Raises Fenced where they are not held any more."""
        return _UNFENCED if fence is None else self._coordinator.guarded(fence)

    def compact(self, topic: str) -> None:
        for log in self._compacted(topic).logs:
            compaction.compact(log, self._clock(), self._topic(topic).definition)

    def compaction_steps(self) -> Generator[None]:
        """Compacts topics that are due, in steps of some milliseconds, all in one thread; may be
        stopped at any step."""
        for topic in self._all():
            # Committed offsets are compacted by commits.
            if topic.definition.compacted and topic.definition.name != OFFSETS:
                for log in topic.logs:
                    if compaction.is_due(log):
                        yield from compaction.steps(log, self._clock(), topic.definition)

    def commit(
        self, group: str, topic: str, offsets: Mapping[int, int], *, fence: Fence | None = None
    ) -> None:
        with self.committing(group, topic, offsets, fence=fence):
            self._offsets.commit(group, topic, offsets)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        self._shards_of(topic)
        return self._offsets.committed(group, topic)

    def join(
        self, group: str, member: str, topics: Sequence[str], *, session_ms: int = SESSION_MS
    ) -> Membership:
        self.create_topic(GROUPS, compacted=True, if_not_exists=True)
        return self._coordinator.join(group, member, topics, session_ms)

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        return self._coordinator.heartbeat(group, member, generation)

    def leave(self, group: str, member: str) -> None:
        self._coordinator.leave(group, member)

    def groups(self) -> list[GroupInfo]:
        members, offsets = self._coordinator.groups(), self._offsets.groups()
        return [
            GroupInfo(name, *members.get(name, (0, ())), offsets.get(name, {}))
            for name in sorted(members.keys() | offsets.keys())
        ]

    def delete_group(self, group: str) -> None:
        with self.deleting_group(group):
            self._offsets.remove_group(group)

    def apply_retention(self) -> None:
        for topic in self._all():
            for log in topic.logs:
                self._retain(topic, log)

    def _retain(self, topic: Topic, log: ShardLog) -> None:
        limits = topic.definition.retention_ms, topic.definition.retention_bytes
        if limits != (None, None):
            retention.apply_retention(log, self._clock(), *limits)

    def trim(self, topic: str, shard: int, before: int) -> None:
        retention.trim(self._log(topic, shard), before)

    def sync(self) -> None:
        if self._flusher is not None:
            self._flusher.check()
        self._sync_logs()

    def _sync_logs(self) -> None:
        for topic in self._all():
            for log in topic.logs:
                log.sync()

    def hold(self, topic: str) -> bool:
        """Takes a topic for this server alone, for a minute from each call on; returns False where
        another server has it. BrokerAway where nobody knows. A data folder has one server."""
        return True

    def wait_for_data(self, timeout_s: float) -> bool:
        return self._appends.wait(timeout_s)

    def wait_for_records(self, topic: str, shard: int, offset: int, timeout_s: float) -> bool:
        log = self._log(topic, shard)
        return self._appends.wait_for(topic, lambda: log.end > offset, timeout_s)

    def wait_beyond(self, seen: int, timeout_s: float) -> int:
        return self._appends.wait_beyond(seen, timeout_s)

    def close(self) -> None:
        if self._flusher is not None:
            self._flusher.stop()
        try:
            if self._options.synced:
                self._sync_logs()
        finally:
            for topic in self._all():
                topic.close()
            self._topics.clear()
            self._lock.release()
