"""The connector 'filesystem': tables over files.

    CREATE TABLE logs (…) WITH ('connector' = 'filesystem', 'path' = '/var/log/app', 'format' =
    'json')

Reads the files that are there when the job begins and ends, unless 'source.monitor-interval' looks
for new files or 'source.follow' = 'true' waits for lines that are written later. Files and folders
whose name begins with . or _ are left out. Writes into the folder `path`, exactly once: lines into
one file per writer that grows (see `sink`), or, with 'sink.rolling-policy.…' and for
'format' = 'parquet', files that show when they are complete (see `rolling`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import unquote, urlsplit

from xxhash import xxh3_128

from parser.errors import OptionError, UnsupportedOption
from parser.types import BIGINT, STRING, DataType, timestamp_ltz
from planner.capabilities import (
    OF_FORMAT,
    Boundedness,
    Capabilities,
    FormatUse,
    Lookup,
    Overwrite,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.boundary.rows import unwritable
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.filesystem.commits import CommitPolicy, PartitionCommits
from sqlengine.connectors.filesystem.files import Files
from sqlengine.connectors.filesystem.followed import FollowedSource
from sqlengine.connectors.filesystem.overwrite import OverwritingFileSink, complete
from sqlengine.connectors.filesystem.partitioned_sink import FolderSink, PartitionedFileSink
from sqlengine.connectors.filesystem.partitions import (
    MAX_NAME,
    check_partitions,
    folder_of,
    listed,
    rows_without_folder,
)
from sqlengine.connectors.filesystem.rolling import Policy, RollingFileSink
from sqlengine.connectors.filesystem.sink import FileSink, Lines, check_folder
from sqlengine.connectors.filesystem.source import FileSource
from sqlengine.connectors.filesystem.tree import files_below
from sqlengine.connectors.filesystem.whole import WholeFileSource
from sqlengine.connectors.lookup_options import LOOKUP_OPTIONS
from sqlengine.connectors.metadata_types import check_written
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, delay, duration
from sqlengine.formats.registry import bulk_format_of, format_of
from sqlengine.system.disk import Disk
from sqlengine.system.file_access import FileAccess
from sqlengine.system.sizes import size

_ROLLING: Final = "sink.rolling-policy."
_COMMIT: Final = "sink.partition-commit."


def _process_time(text: str) -> str:
    if text.strip().lower() == "partition-time":
        raise ValueError(
            "'partition-time' is not supported; 'process-time' commits a partition a delay after"
            " its first row"
        )
    return choice("process-time")(text)


def _success_file(text: str) -> str:
    if {"metastore", "custom"} & {kind.strip().lower() for kind in text.split(",")}:
        raise ValueError(
            "'success-file' is the one that is supported: there is no metastore, and no class of"
            " Java"
        )
    return choice("success-file")(text)


def _folder_name(text: str) -> str:
    if not text or "/" in text or any(c < " " for c in text) or len(text.encode()) > MAX_NAME // 2:
        raise ValueError("expected a part of a folder's name, without / and control characters")
    return text


def _hidden_name(text: str) -> str:
    if "/" in text or "\0" in text or text[:1] not in ("_", ".") or text in (".", ".."):
        raise ValueError("expected a name that begins with _ or ., which readers leave out")
    return text


class FilesystemConnector(Connector):
    name: ClassVar[str] = "filesystem"
    on_spark: ClassVar[str] = "tasks read and encode"
    options: ClassVar[Mapping[str, Option]] = {
        "path": Option(
            required=True,
            doc=(
                "a file or a folder, also as file:///…; a relative one is below the working folder"
                " of the server, or of 'sql run'"
            ),
        ),
        "source.monitor-interval": Option(
            duration, doc="looks for new files so often; the table is then unbounded"
        ),
        "source.follow": Option(
            boolean,
            default="false",
            doc="waits for lines that are appended later; the file may be rotated",
        ),
        "source.unreadable-files": Option(
            choice("fail", "skip"),
            default="fail",
            doc=(
                "'skip' leaves out a file that cannot be read, or is damaged, from there on; a"
                " warning names it"
            ),
        ),
        **LOOKUP_OPTIONS,
        "partition.default-name": Option(
            _folder_name,
            default="__DEFAULT_PARTITION__",
            doc="names the folder of a partition whose value is NULL or empty",
        ),
        _ROLLING + "file-size": Option(size, doc="a file is complete at so many bytes (128 mb)"),
        _ROLLING + "rollover-interval": Option(
            duration, doc="… so long after its first row (30 min; parquet: 1 min)"
        ),
        _ROLLING + "inactivity-interval": Option(
            duration, doc="… so long after its last row (30 min)"
        ),
        _ROLLING + "check-interval": Option(
            duration, doc="without effect: times are looked at between all epochs"
        ),
        _COMMIT + "policy.kind": Option(
            _success_file, doc="'success-file' marks folders of partitions that are complete"
        ),
        _COMMIT + "trigger": Option(_process_time, default="process-time"),
        _COMMIT + "delay": Option(
            delay, default="0 s", doc="a partition is complete so long after its first row"
        ),
        _COMMIT + "success-file.name": Option(_hidden_name, default="_SUCCESS"),
        "sink.parallelism": Option(at_least(1), doc="without effect"),
        "sink.fsync": Option(
            choice("none", "epoch"),
            default="none",
            doc="'epoch' keeps what is committed over power loss",
        ),
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        "file.path": STRING.with_nullable(False),
        "file.name": STRING.with_nullable(False),
        "file.size": BIGINT.with_nullable(False),
        "file.modification-time": timestamp_ltz(3).with_nullable(False),
        "offset": BIGINT.with_nullable(False),
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(
            changelog=OF_FORMAT,
            boundedness=Boundedness.BY_OPTIONS,
            expires=True,
            partition_push_down=True,
            filter_push_down=True,
            lookup=Lookup.RELOADED,
        ),
        sink=SinkCapabilities(
            changelog=OF_FORMAT,
            condition="a journal beside the files; over loss of power with 'sink.fsync' = 'epoch'",
            overwrite=Overwrite.BATCH,
            rolling=True,
        ),
        format=FormatUse.RECORDS_AND_FILES,
        partitioning=True,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. A single file of lines that only grows is not `rolling`, and files of
        lines know nothing of rows that were not read."""
        source, sink = self.capabilities.source, self.capabilities.sink
        assert source is not None
        assert sink is not None
        whole = bulk_format_of(table)
        rolling = (
            bool(table.partition_keys)
            or any(name.startswith(_ROLLING) for name in table.options)
            or whole is not None
        )
        filters = whole is not None and whole[0].capabilities.statistics
        return replace(
            self.capabilities,
            source=replace(source, filter_push_down=filters),
            sink=replace(sink, rolling=rolling),
        )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. ExecutionError where there is nothing at the path."""
        _check_format(table)
        check_partitions(table)
        options, path = options_of(table), path_of(table, environment.files)
        interval, follow = options["source.monitor-interval"], bool(options["source.follow"])
        assert interval is None or isinstance(interval, int)
        complete(path, environment.files)
        whole = bulk_format_of(table)
        if follow and whole is not None:
            raise _does_not_grow(table)
        files = Files(
            table,
            path,
            interval,
            default_name(table),
            environment.clock,
            environment.files,
            rotates=follow,
            skips=options["source.unreadable-files"] == "skip",
            unpacks=whole is None and not follow,
        )
        if follow:
            return FollowedSource(table, files)
        if whole is None:
            return FileSource(table, files, bounded=interval is None)
        return WholeFileSource(table, files, whole, bounded=interval is None)

    def content_stamp(self, table: Table, environment: Environment) -> str | None:
        """Returns the files' names, sizes, times and inodes. OSError where there is nothing."""
        root = path_of(table, environment.files)
        root.stat()
        stamp = xxh3_128()
        for path in files_below(root):
            status = path.stat()
            told = (path, status.st_mtime_ns, status.st_size, status.st_ino)
            stamp.update(repr(told).encode())
        return stamp.hexdigest()

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Makes the folder. PlanError where the path is a file."""
        _check_written(table)
        path = path_of(table, environment.files)
        complete(path, environment.files)
        check_folder(table, path, environment.disk)
        return _Writing(table, environment).sink(path)

    def overwriting_sink(self, table: Table, environment: Environment) -> Sink:
        """Makes the folder. PlanError where the path is a file."""
        _check_written(table)
        path = path_of(table, environment.files)
        complete(path, environment.files)
        commits = _commits(table)
        return OverwritingFileSink(
            table,
            path,
            environment.writer,
            _Writing(table, environment).sink,
            commits.file if commits else None,
            environment.files,
        )

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """See `Connector`. A partition needs a folder, whose name is bounded."""
        reasons = rows_without_folder(table, rows)
        if table.partition_keys and table.options.get("format") != "json":
            # First: a sink of partitions takes the rows of some before it meets those of others.
            reasons = unwritable(table, self, rows) | reasons
        return reasons

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`. Rows of files that are no lines fit if they have the types."""
        if bulk_format_of(table) is None:
            Lines(table, f"table '{table.display}'").encode(rows)

    def row_encoder(self, table: Table) -> RowEncoder | None:
        """See `Connector`. Rows of partitions are parted by their sink first."""
        if table.partition_keys or bulk_format_of(table) is not None:
            return None
        return Lines(table, f"table '{table.display}'")

    def partitions(self, table: Table, values: Mapping[str, str], files: FileAccess) -> list[str]:
        """See `Connector`."""
        check_partitions(table)
        default = default_name(table)
        folders = {folder_of([key], (text,), default) for key, text in values.items()}
        return [
            p
            for p in listed(path_of(table, files), table.partition_keys, default)
            if folders <= set(p.split("/"))
        ]


@dataclass(frozen=True)
class _Writing:
    """Opens the sinks of a table, in its folder or in a hidden folder below it."""

    table: Table
    environment: Environment

    def sink(self, folder: Path) -> Sink:
        if not self.table.partition_keys:
            return self._in_folder(folder)
        policy, clock, disk = _commits(self.table), self.environment.clock, self._disk
        commits = PartitionCommits(policy, folder, clock, disk) if policy else None
        default = default_name(self.table)
        return PartitionedFileSink(
            self.table, folder, self.environment.writer, default, self._in_folder, commits, disk
        )

    @property
    def _disk(self) -> Disk:
        return self.environment.files.disk(self.environment.disk)

    def _in_folder(self, folder: Path) -> FolderSink:
        table, writer = self.table, self.environment.writer
        disk, policy = self._disk, _policy(table)
        fsync = options_of(table)["sink.fsync"] == "epoch"
        if policy is None:
            return FileSink(table, folder, writer, fsync=fsync, disk=disk)
        clock = self.environment.clock
        return RollingFileSink(table, folder, writer, policy, clock, fsync=fsync, disk=disk)


def _policy(table: Table) -> Policy | None:
    """Returns when files are complete; None for a file that only grows."""
    options = options_of(table)
    whole = bulk_format_of(table) is not None
    given = {
        name: options[_ROLLING + name]
        for name in ("file-size", "rollover-interval", "inactivity-interval")
    }
    if not whole and not any(given.values()):
        return None
    minute = 60_000
    least, rollover, inactivity = (v if isinstance(v, int) else None for v in given.values())
    return Policy(
        least or 128 << 20,
        rollover or (minute if whole else 30 * minute),
        inactivity or 30 * minute,
    )


def _commits(table: Table) -> CommitPolicy | None:
    """Returns how partitions are committed; None where they are not. PlanError for a table without
    any."""
    options = options_of(table)
    if options[_COMMIT + "policy.kind"] is None:
        return None
    if not table.partition_keys:
        message = f"table '{table.display}' has no partitions that could be committed"
        raise OptionError(
            message,
            hint=f"write PARTITIONED BY, or leave out '{_COMMIT}…'",
            subject=_COMMIT + "policy.kind",
        )
    wait = options[_COMMIT + "delay"]
    assert isinstance(wait, int)
    return CommitPolicy(str(options[_COMMIT + "success-file.name"]), wait)


def _check_written(table: Table) -> None:
    _check_format(table)
    check_partitions(table)
    _commits(table)
    check_written(table)


def default_name(table: Table) -> str:
    """Returns the name of the folder of a partition whose value is NULL."""
    return str(options_of(table)["partition.default-name"])


def _check_format(table: Table) -> None:
    format_, _ = format_of(table)
    if not format_.capabilities.line_separated and bulk_format_of(table) is None:
        raise UnsupportedOption(
            f"format '{format_.name}' has no lines and cannot be kept in files",
            hint="for example 'format' = 'json'",
            subject="format",
        )


def path_of(table: Table, files: FileAccess) -> Path:
    """Returns where the files are. PlanError where SQL may not use that."""
    path = _named(table.options["path"])
    files.check(path, table=table.display, option="path")
    return path


def _named(text: str) -> Path:
    if "\0" in text or not text:
        raise OptionError(f"path {text!r} is none", hint="name a file or a folder", subject="path")
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in text:
        raise UnsupportedOption(
            f"path '{text}' is not on this machine",
            hint="give a local path or file:///…",
            subject="path",
        )
    return Path(text)


def _does_not_grow(table: Table) -> UnsupportedOption:
    return UnsupportedOption(
        f"files of format '{table.options['format']}' do not grow",
        hint="'source.monitor-interval' reads new files",
        subject="source.follow",
    )
