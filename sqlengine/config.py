"""Configuration of an engine and its server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from parser.errors import ServiceError
from rules.options import Options
from sqlengine.broker.auto_create import AutoCreate
from sqlengine.functions.limits import FunctionLimits
from sqlengine.system.durability import Checkpoints, Delivery, Fsync
from sqlengine.system.file_access import TABLE_FILES, FileAccess
from sqlengine.system.network_access import NetworkAccess
from sqlengine.system.sealed_values import SealedValues
from sqlengine.system.secret_command import secret_command
from sqlengine.system.secrets import Secrets

LOCAL_SOCKET = "server.sock"
FUNCTIONS: Final = "functions"  # folder of users' modules, in the data folder
Target: TypeAlias = Literal["embedded", "spark"]
InstancesOn: TypeAlias = Literal["processes", "spark"]
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class QueryLimits:
    """Limits of ad-hoc queries, which must not disturb the jobs of a server.

    `at_once`: queries that run at the same time. `timeout_s`: the longest that one may run.
    `rows_per_second`: rows that all of them read; `rows_per_read`: rows that one reads at once,
    fewer than a job, so that jobs beside it wait less. `memory`: bytes of state of one.
    `silence_s`: a query ends when nobody has asked for its rows for so long; `pause_s`: the same
    for one that waits until its rows are read, and for a result. `session_s`: so does a session
    that nobody uses."""

    at_once: int = 8
    timeout_s: float = 3600.0
    rows_per_second: int = 100_000
    rows_per_read: int = 1024
    memory: int = 256 << 20
    silence_s: float = 60.0
    pause_s: float = 600.0
    session_s: float = 3600.0


@dataclass(frozen=True)
class Cluster:
    """The `master` of Spark (None: all cores of this machine), with settings of Spark."""

    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)


LOCAL: Final = Cluster()


@dataclass(frozen=True)
class Config:
    """Configuration of an engine, with its server.

    Folders (a relative one is below the working folder of the process that makes the Config):
        `data`: everything durable. `jobs`: watched folder of .sql files (None: DATA/jobs).
        `functions`: modules of users (None: DATA/functions). `volumes`: folders on other disks to
        which shards of topics may be moved. `savepoints`: folders besides DATA/savepoints in which
        savepoints may be. `files`: folders below which SQL may read and write, besides DATA/files
        (None: any, as the rights of the process allow). `hosts`: patterns of those to which tables
        may connect (None: any, see `NetworkAccess`). `secrets`: a file or folder with what
        `${secret:NAME}` stands for, besides variables SQLENGINE_SECRET_NAME; `secrets_command`
        prints it, and has `{name}` where the name belongs.
    Durability:
        `fsync`: 'none' (safe against the death of the process), 'interval' or 'epoch' (against
        power loss). `delivery`: 'at-least-once' may repeat rows after a crash, and saves the record
        of each epoch. `checkpoints`: in RocksDB or in a compacted topic. `checkpoint_rows`,
        `checkpoint_ms`: a checkpoint begins after so many changed rows, or so long.
        `segment_bytes`: size at which a topic begins a new file. `auto_create`: the defaults of
        topics that tables name and that are missing. `broker`: where topics of users and of
        commands are, as rocketmq://HOST:PORT (None: in `data`).
    Limits:
        `function_limits`: of each module of users. `uploads`: requests may bring modules with a
        job's text. `client_rate`: bytes a second that a client may append to topics (None: any).
        `memory_limit`: bytes of state of all jobs together (None: 80 % of the
        memory). `step_output_limit`: bytes
        that a job without a limit may put out in one step (None: an eighth of the memory).
        `step_timeout_s`: seconds that the operators of a job may take in one step (None: any).
        `rows_per_read`: rows that a source reads at once. `latency_target_s`: an epoch begins so
        long after the one before, unless much is left to read: rows that come meanwhile share it.
        `connector_timeout_s`: seconds that a call of a connector may take that waits for a host or
        a disk.
    Placement:
        `instances`: processes that run jobs in parts (0: all jobs run in this one). `parts`: their
        number, fixed when the graph is made (None: one for each instance, two at least).
        `instances_on`: children of this process, or in tasks of Spark, that of `cluster`, which
        reach it at `instances_host` and `instances_port` (0: a free one).
        `session_ms`: how long an instance may be silent. `isolation`: jobs are moved into graphs of
        their own, and merged again, without being asked. `target`: where the operators of jobs run
        that say nothing else, in this process or on Spark, that of `cluster`.
    Server:
        `host`, `port` (0: a free one), `token` that requests must carry, or `access`: the file of
        principals, who may do more or less. `tls_certificate`, `tls_key`: files of the certificate
        with which the port speaks TLS; `tls_client_ca`: file of the authorities whose certificates
        clients must show. `socket`: path of the local socket (None: DATA/server.sock).
        `flight_port`: of Arrow Flight SQL, at the same host (0: a free one; None: none).
    Planning:
        `plan_cache`: keep plans on disk for the next start. `families`: equal operations of many
        jobs run as one. `rules`: options of rule databases.
        `settings`: defaults of SET for all jobs.
    """

    data: Path = Path("data")
    jobs: Path | None = None
    functions: Path | None = None
    function_limits: FunctionLimits = field(default_factory=FunctionLimits)
    uploads: bool = False
    fsync: Fsync = "none"
    delivery: Delivery = "exactly-once"
    segment_bytes: int = 64 << 20
    auto_create: AutoCreate = field(default_factory=AutoCreate)
    broker: str | None = None
    instances: int = 0
    parts: int | None = None
    instances_on: InstancesOn = "processes"
    instances_host: str = "127.0.0.1"
    instances_port: int = 0
    session_ms: int = 10_000
    rows_per_read: int = 4096
    latency_target_s: float = 0.01
    memory_limit: int | None = None
    step_output_limit: int | None = None
    step_timeout_s: float | None = 60.0
    connector_timeout_s: float = 30.0
    isolation: bool = True
    target: Target = "embedded"
    cluster: Cluster = LOCAL
    checkpoints: Checkpoints = "rocksdb"
    checkpoint_rows: int = 100_000
    checkpoint_ms: int = 10_000
    host: str = "127.0.0.1"
    port: int = 8083
    token: str | None = None
    access: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    socket: Path | None = None
    flight_port: int | None = None
    plan_cache: bool = True
    families: bool = True
    client_rate: int | None = None
    volumes: tuple[Path, ...] = ()
    savepoints: tuple[Path, ...] = ()
    files: tuple[Path, ...] | None = None
    hosts: tuple[str, ...] | None = None
    secrets: Path | None = None
    secrets_command: str | None = None
    queries: QueryLimits = field(default_factory=QueryLimits)
    rules: Options = field(default_factory=Options)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Makes all folders absolute: child processes have working folders of their own, and the
        program that embeds the engine may change its own."""
        for name in (
            "data", "jobs", "functions", "secrets", "access", "tls_certificate", "tls_key",
            "tls_client_ca", "socket",
        ):  # fmt: skip
            folder = getattr(self, name)
            if folder is not None:
                object.__setattr__(self, name, Path(folder).absolute())
        for name in ("volumes", "savepoints"):
            folders = tuple(Path(folder).absolute() for folder in getattr(self, name))
            object.__setattr__(self, name, folders)
        if self.broker is not None:
            object.__setattr__(self, "auto_create", replace(self.auto_create, elsewhere=True))
        if self.files is not None:
            object.__setattr__(self, "files", tuple(Path(f).absolute() for f in self.files))

    @property
    def jobs_folder(self) -> Path:
        return self.jobs or self.data / "jobs"

    @property
    def places_on_spark(self) -> bool:
        """True if there are instances, in tasks of Spark."""
        return self.instances > 0 and self.instances_on == "spark"

    @property
    def local_socket(self) -> Path:
        """The path of the server's local socket."""
        return self.socket or self.data / LOCAL_SOCKET

    @property
    def file_access(self) -> FileAccess:
        """The files that SQL may use."""
        folders = None if self.files is None else (self.data / TABLE_FILES, *self.files)
        return FileAccess(folders, self.data)

    @property
    def network_access(self) -> NetworkAccess:
        """The hosts to which SQL may connect over HTTP."""
        return NetworkAccess(self.hosts)

    @property
    def secret_values(self) -> Secrets:
        """The secrets to which options of tables refer."""
        command = None if self.secrets_command is None else secret_command(self.secrets_command)
        return Secrets(self.secrets, command, SealedValues(self.sealed_folder))

    @property
    def sealed_folder(self) -> Path:
        """The folder of passwords that were written plainly into texts."""
        return self.data / "secrets"

    @property
    def dimensions(self) -> Path:
        """The folder of the versions of tables that rows are looked up in."""
        return self.data.resolve() / "dimensions"

    @property
    def functions_folder(self) -> Path:
        return self.functions or self.data / FUNCTIONS


def function_limits(seconds: float | None, megabytes: int | None) -> FunctionLimits:
    """Returns the limits of a module of users. `seconds` is for a row; a call of a vectorised
    function gets five times that, a batch thirty times, as by default."""
    standard = FunctionLimits()
    limits = standard
    if seconds is not None:
        factor = seconds / standard.row_s
        limits = replace(
            limits,
            row_s=seconds,
            call_s=standard.call_s * factor,
            batch_s=standard.batch_s * factor,
        )
    return limits if megabytes is None else replace(limits, memory=megabytes << 20)


def data_folder(given: str | None) -> Path:
    """Returns the data folder: --data, else SQLENGINE_DATA, else ./data."""
    return Path(given or os.environ.get("SQLENGINE_DATA") or "data")


def token_from(path: str | None) -> str | None:
    """Returns the token from a file, else from SQLENGINE_TOKEN; None if neither is given.

    Raises ServiceError for an empty one, which would let everybody in.
    """
    if path is None:
        token, where = os.environ.get("SQLENGINE_TOKEN"), "the variable SQLENGINE_TOKEN"
    else:
        token, where = _read_token(path), f"the token file '{path}'"
    if token is None:
        return None
    if not token.strip() or not token.isascii():
        raise ServiceError(
            f"{where} holds no token",
            hint="a token is a line of ASCII, such as openssl rand -hex 32 gives",
        )
    return token.strip()


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(f"the token file '{path}' cannot be read", detail=str(error)) from None
