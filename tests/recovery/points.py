"""The points at which processes are killed by name, and which of them it is to change a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.recovery.cluster_workload import DIVIDED, IN_PARTS
from tests.recovery.cluster_workload import PATHS as PATHS_IN_PARTS
from tests.recovery.workload import ALONE, PATHS

MOMENTS = ("before", "within", "after")
SERVER, LEADER, INSTANCE = "server", "server with instances", "instance"

_OF_ANY_SERVER = {
    "append": "a client's batch is appended to a topic",
    "record": "the record of an epoch is written",
    "file journal": "a file sink writes the epoch down",
    "file rename": "a complete file gets its name",
    "dead letter": "records that cannot be read are set aside",
    "checkpoint": "a checkpoint is put into RocksDB",
    "topic checkpoint": "a checkpoint is appended to its topic",
    "compaction": "a compacted segment is written, gets its name, takes the place of others",
    "retention": "an old segment is removed",
    "new segment": "a topic goes on in another file",
    "hot change": "the job log is written, or what instances are told of a change",
    "handover": "what a job takes along into another graph is written",
    "savepoint": "a savepoint is written, named or removed",
    "rebalance": "the shards or parts of a group are shared out anew",
    "moved shard": "a shard goes on in another folder, its segments follow",
    "sync": "what was appended is made safe against power loss",
    "recovery": "the torn end of a file is cut",
    "graph removed": "the checkpoints of a graph without jobs go",
    "other": "a topic is made or altered, a file is opened or removed",
}


def _outputs(paths: Mapping[str, object]) -> dict[str, str]:
    return {f"output of {path}": f"rows of an epoch leave for {path}" for path in paths}


# By who dies there: the points by name, with what happens there.
POINTS: Mapping[str, Mapping[str, str]] = {
    SERVER: {
        **_OF_ANY_SERVER,
        "group commit": "members of a group commit offsets",
        **_outputs(PATHS),
    },
    LEADER: {
        **_OF_ANY_SERVER,
        "part record": "the record of an epoch of a part is written for an instance",
        "rows between parts": "rows of an epoch are written for other parts",
        **_outputs(PATHS_IN_PARTS),
    },
    INSTANCE: {
        "instance joins": "an instance becomes a member of the group that shares the parts",
        "part taken up": "a part is opened where it was not before",
        "part record": "the record of an epoch, or of a change, of a part is written",
        "rows between parts": "rows of an epoch leave for other parts",
        "checkpoint of a part": "a checkpoint of a part is put into RocksDB, or into its topic",
        "change prepared": "an instance makes a change of jobs ready for its parts",
        "change made in a part": "a part goes on with other jobs",
        "part given up": "a part is closed since it goes to another instance",
        "instance leaves": "an instance that ends gives its membership up",
        "handover": "what a job has in a part is written down, for a savepoint or a move",
        "dead letter": "records of a part that cannot be read are set aside",
        **_outputs(DIVIDED),
    },
}
NAMES = tuple(dict.fromkeys(name for points in POINTS.values() for name in points))
_INPUTS = ("events", "orders", "readings", "bids")
_BY_TOPIC = {
    **dict.fromkeys(_INPUTS, "append"), "_epochs": "record", "_jobs": "hot change", "_groups": "rebalance",
    "_offsets": "group commit", "_checkpoints": "topic checkpoint", "_dead_letters": "dead letter",
    "_handovers": "handover", "_parts_shared": "part record", "_shuffle_shared": "rows between parts",
    "_control_shared": "hot change", "_checkpoints_shared": "topic checkpoint",
}  # fmt: skip
_MOVED = ALONE.moved.keys() | IN_PARTS.moved.keys()
_COMPACTED = (
    "_jobs", "_offsets", "_groups", "_checkpoints", "_checkpoints_shared", "_handovers", *ALONE.compacted, *IN_PARTS.compacted,
)  # fmt: skip
_OF_SEGMENTS = {"sync": "sync", "truncate": "recovery"}


def point_of(what: str, path: Path) -> str:
    """Which point it is to do `what` to a file or folder."""
    if "savepoints" in path.parts:
        return "savepoint"
    if path.suffix in (".seg", ".tmp") and path.name[0].isdigit():
        return _point_of_segment(what, path, _topic_of(path))
    sink = next((name for name in ("lines", "lake") if name in path.parts), None)
    if sink is not None and what == "write":
        return "file journal" if path.suffix in (".journal", ".new") else f"output of {sink}"
    if sink is not None and what == "rename":
        return "file rename"
    return "recovery" if what == "truncate" else "other"


def _topic_of(path: Path) -> str:
    """Of a segment in the data folder, or where its shard was moved to."""
    return next(
        (p.removesuffix(".topic") for p in path.parts if p.endswith(".topic")),
        path.parts[-2].split("-")[0],
    )


def _point_of_segment(what: str, path: Path, topic: str) -> str:
    if what in _OF_SEGMENTS:
        return _OF_SEGMENTS[what]
    if what == "write" and path.suffix == ".seg":
        return point_of_topic(topic)
    if "volume" in path.parts or (what == "remove" and topic in _MOVED):
        return "moved shard"
    if what == "remove":
        return "compaction" if topic in _COMPACTED else "retention"
    return "new segment" if path.name.split(".")[1] == "0000" else "compaction"


def point_of_topic(topic: str) -> str:
    """Which point it is to append to a topic."""
    output = f"output of {topic}"
    return _BY_TOPIC.get(topic, output if output in NAMES else "other")
