"""The errors of the broker.

ServiceError
├── Unreachable            no server answers, whatever was asked of it
└── BrokerError            a topic, a shard or the data folder is at fault, or an invalid request
    ├── TopicNotFound
    ├── TopicExists
    ├── OffsetOutOfRange   records were removed, or never existed
    ├── Fenced             the caller is not the owner (any more): nothing was done
    │   └── NameTaken      another process has joined under the member's name
    ├── BrokerFull         no disk space: nothing was written, the same append works once there
    │   │                  is (`TryAgain`)
    │   └── TopicFull      the topic has its maximal size: the same append works once something
    │                      is removed
    ├── TooFast            a client exceeds its rate: nothing was done, the same request works
    │                      after `retry_ms`
    ├── CorruptSegment     a file is damaged in the middle; nothing is dropped silently
    ├── UnknownFormat      a file was written by another version
    ├── DataFolderLocked   another server uses the folder
    ├── BrokerAway         the servers behind the broker do not answer: nobody knows whether it was
    │                      done; the same works once they are back
    └── BrokerUnreachable  a server's broker did not answer (`Unreachable`)
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from parser.errors import ServiceError, TryAgain

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Unreachable(ServiceError):
    """No sqlengine server answers at the URL."""


class BrokerError(ServiceError):
    title = "broker error"


class TopicNotFound(BrokerError):
    """A topic is missing. `similar`: its name and those of other topics, of which the hint suggests
    one; they are compared when somebody reads the hint, since that takes long and most only want to
    know."""

    # An error that was carried from another process is made without `__init__`.
    _similar: tuple[str, Collection[str]] | None = None
    _hint: str | None = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        similar: tuple[str, Collection[str]] | None = None,
    ) -> None:
        self._similar = similar
        super().__init__(message, hint=hint)

    @property
    def hint(self) -> str | None:
        """Suggestion for people, made when it is read first."""
        if self._similar is not None:
            near = difflib.get_close_matches(*self._similar, n=1)
            self._similar = None
            if near:
                self._hint = f"did you mean {near[0]!r}?"
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint


class TopicExists(BrokerError):
    pass


class OffsetOutOfRange(BrokerError):
    pass


class Fenced(BrokerError):
    pass


class NameTaken(Fenced):
    pass


class BrokerFull(BrokerError, TryAgain):
    pass


class TopicFull(BrokerFull):
    pass


class TooFast(BrokerError):
    def __init__(self, client: str, bytes_per_s: int, retry_ms: int) -> None:
        super().__init__(
            f"client {client!r} sends too fast",
            detail=f"it may send {bytes_per_s:,} bytes a second; nothing was written",
            hint=f"send the same again in {retry_ms} ms",
        )
        self.retry_ms = retry_ms


class CorruptSegment(BrokerError):
    pass


class UnknownFormat(BrokerError):
    pass


class DataFolderLocked(BrokerError):
    pass


class BrokerAway(BrokerError):
    pass


class BrokerUnreachable(BrokerError, Unreachable):
    pass


def topic_not_found(name: str, known: Iterable[str]) -> TopicNotFound:
    return TopicNotFound(
        f"topic {name!r} does not exist",
        hint=f"create it: sql topic create {name}",
        similar=(name, list(known)),
    )


def offset_out_of_range(where: str, offset: int, begin: int, end: int) -> OffsetOutOfRange:
    why = "was removed by retention" if offset < begin else "does not exist yet"
    there = f"read from an offset between {begin} and {end - 1}, or" if begin < end else "read"
    return OffsetOutOfRange(
        f"offset {offset} of {where} is out of range",
        detail=f"it {why}: the shard begins at {begin} and ends before {end}",
        hint=f"{there} from {end} what comes next",
    )


def cannot_write(where: str, cause: OSError) -> BrokerError:
    detail = f"{cause.strerror}; nothing was written"
    if cause.errno not in NO_SPACE:
        return BrokerError(f"cannot write to {where}", detail=detail)
    hint = "free disk space or lower the retention of topics, then try again"
    return BrokerFull(f"no space to write to {where}", detail=detail, hint=hint)


def topic_full(name: str, size: int, most: int) -> TopicFull:
    return TopicFull(
        f"topic {name!r} is full",
        detail=f"it holds {size:,} bytes and may hold {most:,}; nothing was written",
        hint=f"raise max_bytes (sql topic alter {name} --max-bytes N), or give it a retention",
    )


def cannot_start(cause: OSError) -> BrokerError:
    """Returns the error of a server whose disk refuses something that every server needs."""
    hint = {
        errno.EMFILE: "let it open more files: ulimit -n, or LimitNOFILE= of its service",
        errno.EROFS: "mount the disk of the data folder for writing, or name another with --data",
    }.get(
        cause.errno or 0, "see that its disk is sound, and that this user may read and write there"
    )
    if cause.errno in NO_SPACE:
        hint = "free space or inodes on that disk, then start again"
    where = f"{cause.filename}: " if cause.filename else ""
    return BrokerError("the server cannot start", detail=f"{where}{cause.strerror}", hint=hint)


@contextmanager
def raising_broker_full(where: str) -> Iterator[None]:
    """Raises BrokerFull for an OSError that means there is no space; others pass."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise cannot_write(where, error) from error
        raise


def how_to_repair(path: Path) -> str:
    """Says how to repair the topic of a file below `DATA/topics`, or below a folder to which its
    shard was moved."""
    for folder in path.parents:
        if folder.name.endswith(".topic"):
            name, data = folder.name.removesuffix(".topic"), str(folder.parent.parent)
            return f"stop the server and repair the topic: sql topic repair {name} --data {data}"
    name = path.parent.name.rsplit("-", 2)[0]
    return f"stop the server and repair the topic: sql topic repair {name} --data DIR"


def corrupt_segment(path: Path, position: int, offset: int, what: str) -> CorruptSegment:
    return CorruptSegment(
        f"segment {str(path)!r} is corrupt at byte {position}, offset {offset}",
        detail=what,
        hint=f"restore the file from a copy; or, to give up what is damaged, {how_to_repair(path)}",
    )


def cannot_read_segment(path: Path, cause: OSError) -> BrokerError:
    return BrokerError(
        f"segment {str(path)!r} cannot be read",
        detail=cause.strerror,
        hint="see whether its disk is sound and this user may read it, or restore it from a copy",
    )


def records_missing(path: Path, position: int, first: int, behind: int) -> CorruptSegment:
    return CorruptSegment(
        f"segment {str(path)!r} is corrupt at byte {position}, offset {first}",
        detail=(
            f"records {first:,} to {behind - 1:,} were there when the log was closed, and are"
            " damaged or missing"
        ),
        hint=f"restore the file from a copy; or, to give up these records, {how_to_repair(path)}",
    )


def unknown_format(path: Path, found: object, known: int) -> UnknownFormat:
    return UnknownFormat(
        f"{str(path)!r} has format {found}, this version reads format {known}",
        hint="start the version that wrote the folder, or begin with an empty data folder",
    )


def topic_exists(name: str) -> TopicExists:
    """Returns the error for a topic that is to be created and is there."""
    return TopicExists(
        f"topic {name!r} exists already", hint="choose another name or delete it first"
    )


def owned_by_member(group: str, topic: str, shard: int, member: str) -> Fenced:
    """Returns the error for a commit from outside of a group whose member owns the shard."""
    return Fenced(
        f"topic {topic!r} shard {shard} belongs to the member {member!r} of group {group!r}",
        hint="only its owner commits while a group has members: stop them first",
    )


def has_members(group: str, members: Iterable[str]) -> Fenced:
    """Returns the error for a change that wants a group without members."""
    names = ", ".join(sorted(members)[:5])
    return Fenced(f"group {group!r} has members: {names}", hint="stop them first")
