"""A job and its versions, as values.

Imports nothing heavy: the command line and the client of a server need it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parser.errors import JobError

MAIN = "main"  # name of the graph that jobs share
MAX_NAME = 200  # characters
# Where a job begins that is started as a new one, beside times in ms.
BEGINS = ("configured", "earliest", "latest")
FORMAT = 1  # of jobs, versions and changes in the job log


class JobState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    DEFINED = "defined"  # it has no INSERT: it only defines tables, views, functions
    DRAFT = "draft"  # its head says so: it has been checked, and does not run
    RETIRED = "retired"  # its head says so: it does not run any more
    WAITING = "waiting"  # a table that it names is missing; tried again when the catalog changes
    FAILED = "failed"
    RESTARTING = "restarting"  # it failed, and is started again after a pause


# The states of jobs that have nothing to run.
AT_REST = (JobState.DEFINED, JobState.DRAFT, JobState.RETIRED)


class Cause(StrEnum):
    """The reason why a job runs in a graph of its own. With NONE it is merged into the shared graph
    as soon as both have read to the same offsets."""

    NONE = ""
    COMMAND = "command"
    SINK = "sink"
    LOOKUP = "look-up"
    ERRORS = "errors"
    COST = "cost"
    GROUP = "group"


class Origin(StrEnum):
    """The interface that a version of a job came from. The latest one wins, whatever its origin."""

    REST = "rest"
    FOLDER = "folder"
    TOPIC = "topic"
    CLI = "cli"
    SDK = "sdk"


@dataclass(frozen=True)
class JobVersion:
    """A text of a job. Versions count from 1 and are never used again; `file` is where the text
    came from. `needs`: the job versions that define what the text names: with them it means the
    same after any change of the catalog. `by`: the principal that submitted it, '' where the server
    tells none apart. `modules`: the contents of users' modules that it was
    submitted with. `follows`: the jobs whose new definitions are the reason for this version, which
    has the text of the one before. `shadow`: it began as a shadow, `beside` this live version (0:
    there was none), and `fate` says what became of that at `fate_ms`, '' while it runs."""

    name: str
    version: int
    sql: str
    origin: Origin
    created_ms: int
    file: str | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    follows: tuple[str, ...] = ()
    by: str = ""
    shadow: bool = False
    beside: int = 0
    fate: str = ""
    fate_ms: int = 0
    format: int = FORMAT


@dataclass(frozen=True)
class Job:
    """A job as it is now. `reason` says why it waits, failed or runs in a graph of its own;
    `defines` and `uses` name catalog objects in full. `kept`: the key under which the position and
    the state of a job that does not run are stored, shared by jobs that left their graph together.
    `restarts`: how often it failed in a row, and `failures`: when (ms), as far as its restart
    strategy looks back; `next_ms`: when it is started again. `target`: where it was told to run,
    '' if its settings or the server's say so. `ran_ms`: how long the canary of a shadow has run, as
    far as it has been noted."""

    name: str
    version: int
    state: JobState
    origin: Origin
    changed_ms: int
    reason: str | None = None
    graph: str = MAIN
    defines: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    cause: Cause = Cause.NONE
    kept: str = ""
    restarts: int = 0
    failures: tuple[int, ...] = ()
    next_ms: int = 0
    target: str = ""
    ran_ms: int = 0
    format: int = FORMAT


@dataclass(frozen=True)
class Removal:
    """The end of a job, by the interface and the principal that asked for it. `version`: the last
    that it had."""

    name: str
    version: int
    origin: Origin
    removed_ms: int
    by: str = ""
    format: int = FORMAT


def check_name(name: str) -> str:
    """Returns `name` if it is a job name: 1 to 200 characters of A-Z a-z 0-9 _ . -, no dot first.

    Raises JobError otherwise.
    """
    good = 0 < len(name) <= MAX_NAME and all(
        c.isascii() and (c.isalnum() or c in "_.-") for c in name
    )
    if not good or name[0] == ".":
        raise JobError(
            f"'{name[:60]}' is not a job name",
            detail=(
                f"a name has 1 to {MAX_NAME} letters, digits, dots, underscores and hyphens, no dot"
                " in front"
            ),
        )
    return name


def with_state(job: Job, state: JobState, now_ms: int, reason: str | None = None) -> Job:
    """Returns the job in another state."""
    return replace(job, state=state, changed_ms=now_ms, reason=reason)
