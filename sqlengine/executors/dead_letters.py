"""The dead-letter topic, written as part of the epochs of a graph.

A record is a dead letter, or lists letters that have been replayed (`replayed`). A letter's number
is its offset; its key holds its job and table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from parser.errors import TryAgain
from planner.graph.families import place_in
from planner.graph.family_members import Member, operation_of
from planner.graph.family_nodes import Family, node_of_member
from planner.graph.physical import PhysicalNode
from planner.logical import AssignWatermark, Scan, ShuffleScan
from sqlengine.batch import Batch
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.connectors.base import Sink
from sqlengine.executors.epochs import Replay
from sqlengine.operators.base import DEAD_LETTER
from sqlengine.operators.late_rows import described

DEAD_LETTERS = "_dead_letters"
# The number of a member and its parameters in a row as JSON: in a text quotes would be escaped.
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^",{}\s]+)'
_ITEM = rf'"\$member[\d.]*": {_VALUE}'
_ITEMS = re.compile(rf"(?<!\\){_ITEM}, |, {_ITEM}|(?<!\\){_ITEM}")
_NUMBER = re.compile(r'(?<!\\)"\$member\d?": (\d+)')
_PARAMETER = re.compile(r"\$member\d?\.\d+")
# The job of a letter ('' for a record that its table cannot read) and its table.
Owner: TypeAlias = tuple[str, str]
_OWNER = msgspec.json.Decoder(tuple[str, str])
_NAMES = (
    "job",
    "place",
    "subject",
    "reason",
    "payload",
    "shard",
    "offset",
    "table",
    "stored",
    "source",
)


class DeadLetterSink(Sink):
    """Writes rows in error as JSON objects: the columns of DEAD_LETTER, the time, the graph, the
    epoch and the version of the job. `versions` returns the versions of running jobs. Those of
    epochs up to `known` are there, of another writer."""

    def __init__(
        self,
        broker: Broker,
        writer: str,
        versions: Callable[[], Mapping[str, int]] = dict,
        known: int = 0,
    ) -> None:
        broker.create_topic(DEAD_LETTERS, retention_bytes=1 << 30, if_not_exists=True)
        self._broker = broker
        self._writer = writer
        self._versions = versions
        self._known = known
        self._pending: list[dict[str, object]] = []
        self._time = 0

    def last_epoch(self) -> int | None:
        return self._broker.last_epoch(DEAD_LETTERS, 0, self._writer)

    def write(self, batch: Batch) -> None:
        self._time = batch.proctime
        self._pending += self._records(batch)

    def write_at_once(self, batch: Batch) -> None:
        """Writes dead letters that belong to no epoch; a crash may write them again."""
        rows = [{**r, "graph": self._writer} for r in self._records(batch)]
        with _waiting():
            self._broker.append(
                DEAD_LETTERS,
                0,
                [msgspec.json.encode(r) for r in rows],
                keys=[encode_owner(str(r["job"]), str(r["table"])) for r in rows],
                timestamp_ms=batch.proctime,
            )

    def _records(self, batch: Batch) -> list[dict[str, object]]:
        versions = self._versions()
        found = []
        for values in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            letter = {"time": batch.proctime, **dict(zip(_NAMES, values, strict=True))}
            found.append({**letter, "version": versions.get(str(letter["job"]), 0)})
        return found

    def mark_replayed(self, replay: Replay, now_ms: int) -> None:
        """Records, with the epoch's commit, that these letters have been replayed."""
        self._time = now_ms
        # In the same commit as the rows' own new letters: a crash leaves both or neither.
        done = [again.letter for again in replay.rows]
        self._pending.append(
            {"replayed": done, "job": replay.job, "version": replay.version, "time": now_ms}
        )

    def commit(self, epoch: int) -> int:
        """See `Sink`. TryAgain whatever it is that refuses the letters: no job is at fault."""
        if epoch <= self._known:
            self._pending = []
            return 0
        rows = [
            msgspec.json.encode({**r, "graph": self._writer, "epoch": epoch}) for r in self._pending
        ]
        keys = [
            None if "replayed" in r else encode_owner(str(r["job"]), str(r["table"]))
            for r in self._pending
        ]
        with _waiting():
            done = self._broker.append(
                DEAD_LETTERS,
                0,
                rows,
                keys=keys,
                timestamp_ms=self._time,
                writer=self._writer,
                epoch=epoch,
            )
        self._pending = []
        return 0 if done.duplicate else len(rows)

    def close(self) -> None: ...


@contextmanager
def _waiting() -> Iterator[None]:
    """Lets a graph wait with its letters for a topic that cannot be written, as for space: a sink
    that refuses them has no job that could leave with them."""
    try:
        yield
    except TryAgain:
        raise
    except BrokerError as error:
        raise TryAgain(
            "dead letters cannot be written now",
            detail=f"{error.message}: {error.detail}" if error.detail else error.message,
            hint="they are kept, and written when their topic can be",
        ) from error


def encode_owner(job: str, table: str) -> bytes:
    return msgspec.json.encode((job, table))


def decode_owner(key: bytes) -> Owner:
    return _OWNER.decode(key)


def with_source(
    letters: Batch, node: PhysicalNode, source: PhysicalNode | None, family: Family | None = None
) -> Batch:
    """Completes the letters of an operator: adds the table that the row came from, and gives a
    letter to each job that shares the operator (of a `family`: to those of the row's member),
    unless the table itself cannot read the record. `source`: None where nobody knows which of
    several it was."""
    if family is not None:
        letters = _of_members(letters, node, family)
    if not isinstance(node.plan, Scan | AssignWatermark):
        letters = _for_each_owner(letters, sorted(node.jobs))
    if source is None or not isinstance(source.plan, Scan) or isinstance(source.plan, ShuffleScan):
        return letters
    table = source.plan.table
    address = (".".join(table.name), stored(table.options), source.id)
    known = [pa.array([text] * letters.num_rows, pa.string()) for text in address]
    return replace(letters, columns=(*letters.columns[:-3], *known))


def stored(options: Mapping[str, str]) -> str:
    """The topic or path that keeps a table's records, or ''."""
    return options.get("topic") or options.get("path", "")


def _of_members(letters: Batch, node: PhysicalNode, family: Family) -> Batch:
    """Gives letters of a node to the jobs of the member that is named in the row, with the place in
    their text, and takes what only the family has out of what people see."""
    names = ("owner", "place", "subject", "payload")
    at = [DEAD_LETTER.index(name) for name in names]
    texts: dict[str, list[str]] = {name: [] for name in names}
    rows: list[int] = []
    known = zip(*(letters.columns[i].to_pylist() for i in at), strict=True)
    for row, (owner, place, subject, payload) in enumerate(known):
        found = _NUMBER.search(payload)
        member = None if found is None else family.members.get(int(found[1]))
        shared = not owner and member is not None
        for job in sorted(member.jobs) if shared and member is not None else [owner]:
            rows.append(row)
            texts["owner"].append(job)
            texts["place"].append(place_in(family, member, place) if shared and member else place)
            texts["subject"].append(
                _of_member(subject, node, family, member) if member else subject
            )
            texts["payload"].append(_ITEMS.sub("", payload))
    taken = letters.take(np.array(rows, np.int64))
    columns = list(taken.columns)
    for i, name in zip(at, names, strict=True):
        columns[i] = pa.array(texts[name], pa.string())
    return replace(taken, columns=tuple(columns))


def _of_member(subject: str, node: PhysicalNode, family: Family, member: Member) -> str:
    """Returns the operation of a member, or an expression with its literals."""
    own = node_of_member(family, member, node.id)
    if own is not None and subject == described(operation_of(node)):
        return described(operation_of(own))
    return _PARAMETER.sub(lambda found: str(member.constant(found[0])), subject)


def _for_each_owner(letters: Batch, jobs: list[str]) -> Batch:
    shared = np.array([not owner for owner in letters.columns[0].to_pylist()], np.bool_)
    if not shared.any() or not jobs:
        return letters
    rows = np.repeat(np.arange(letters.num_rows), np.where(shared, len(jobs), 1))
    taken = letters.take(rows)
    # `repeat` put the copies of a shared letter side by side: each takes the next job in turn.
    names = iter(jobs * int(shared.sum()))
    owners = [owner or next(names) for owner in taken.columns[0].to_pylist()]
    return replace(taken, columns=(pa.array(owners, pa.string()), *taken.columns[1:]))
