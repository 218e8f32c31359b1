"""A cache of plans on disk: ten thousand rules are planned once and read at every later start.

An entry is valid for one text under the settings and the code that planned it, while the tables and
views that it names stay the same. Only plans are kept, never errors; an entry that cannot be read
is planned again."""

from __future__ import annotations

import inspect
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Self, cast

import msgspec

from parser.types import DataType
from planner import plan
from planner.catalog import Catalog, CatalogObject, Function, Identifier
from planner.codec import Decoder, Encoder
from planner.logical import Sink
from sqlengine.catalog.changes import check_place
from sqlengine.functions.library import Library
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job
from sqlengine.jobs.script import Script
from udf.registry import Definition

log = logging.getLogger("sqlengine")

# Beyond so many entries the older half goes.
MOST = 200_000
# SQLite numbers entries in the order they came.
_MAKE = "CREATE TABLE IF NOT EXISTS plans (key BLOB PRIMARY KEY, entry BLOB NOT NULL)"


class _Entry(msgspec.Struct, array_like=True):
    """The plan of a job. `needs`: the objects that it was planned over, each with its digest (None:
    there was no object of that name)."""

    needs: list[tuple[Identifier, bytes | None]]
    uses: list[Identifier]
    settings: dict[str, str]
    sinks: bytes
    warnings: list[str] = []


class PlanCache:
    """A context manager for one thread; `counters`: hits, misses. A file that is no cache is
    replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digests: dict[int, tuple[CatalogObject, bytes]] = {}
        self._objects: Mapping[Identifier, CatalogObject] = {}
        self._names: Sequence[str] = ()
        self.counters: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open(self._path)
        except sqlite3.DatabaseError as error:
            try:
                self._path.unlink(missing_ok=True)
                self._open(self._path)
                log.warning("the plan cache '%s' is made anew: %s", self._path, error)
            except (OSError, sqlite3.DatabaseError) as worse:
                log.warning("the plan cache '%s' is not used: %s", self._path, worse)
                self._open(":memory:")
        return self

    def _open(self, path: Path | str) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA synchronous = OFF")  # a torn cache is made anew
        self._file.execute(_MAKE)

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):  # a full disk, a busy file: nothing is kept
            first, last = self._file.execute("SELECT min(rowid), max(rowid) FROM plans").fetchone()
            if last is not None and last - first >= MOST:
                self._file.execute("DELETE FROM plans WHERE rowid < ?", ((first + last) // 2,))
            self._file.commit()
        self._file.close()

    def plan(
        self,
        job: JobText,
        catalog: Catalog,
        settings: Mapping[str, str],
        library: Library | None = None,
    ) -> PlannedJob:
        """`plan_job` with a cache, which has no jobs with functions of users."""
        if job.modules:
            return plan_job(job, catalog, settings, library)
        key = _key(job, catalog, settings, self._functions(catalog))
        cached = self._get(key, job.name, catalog)
        self.counters["misses" if cached is None else "hits"] += 1
        if cached is not None:
            return cached
        planned = plan_job(job, catalog, settings, library)
        if planned.sinks and not planned.objects and not planned.functions:
            self._put(key, planned, catalog)
        return planned

    def _get(self, key: bytes, name: str, catalog: Catalog) -> PlannedJob | None:
        try:
            row = self._file.execute("SELECT entry FROM plans WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            entry = msgspec.msgpack.decode(row[0], type=_Entry)
            if any(self._digest(catalog, need) != digest for need, digest in entry.needs):
                return None
            sinks = cast(tuple[Sink, ...], Decoder(catalog).decode(entry.sinks))
        except (sqlite3.Error, msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
            log.warning("a plan of job %s cannot be read from the cache: %s", name, error)
            return None
        return PlannedJob(
            name,
            sinks,
            uses=frozenset(entry.uses),
            settings=entry.settings,
            warnings=tuple(entry.warnings),
        )

    def _put(self, key: bytes, planned: PlannedJob, catalog: Catalog) -> None:
        encoder = Encoder(catalog)
        try:
            sinks = encoder.encode(planned.sinks)
        except (TypeError, RecursionError) as error:
            log.debug("the plan of job %s is not kept: %s", planned.name, error)
            return
        needs = [
            (name, self._digest(catalog, name)) for name in sorted(encoder.tables | planned.uses)
        ]
        entry = _Entry(
            needs, sorted(planned.uses), dict(planned.settings), sinks, list(planned.warnings)
        )
        with suppress(sqlite3.Error):  # a full disk, a busy file: it is planned again next time
            self._file.execute(
                "INSERT OR REPLACE INTO plans VALUES (?, ?)", (key, msgspec.msgpack.encode(entry))
            )

    def _functions(self, catalog: Catalog) -> Sequence[str]:
        """The names of all functions of users: a text may refer to a new one."""
        if self._objects is not catalog.objects:
            self._objects = catalog.objects
            self._names = sorted(
                ".".join(n) for n, o in catalog.objects.items() if isinstance(o, Function)
            )
        return self._names

    def _digest(self, catalog: Catalog, name: Identifier) -> bytes | None:
        item = catalog.get(name)
        if item is None:
            return None
        known = self._digests.get(id(item))
        if known is None:
            # With the object itself, so that no other one gets its id.
            known = self._digests[id(item)] = (item, _digest(item))
        return known[1]


def _digest(item: CatalogObject) -> bytes:
    """A digest of a whole definition. It is encoded over an empty catalog, so that the tables in it
    are written out."""
    return blake2b(
        type(item).__name__.encode() + Encoder(Catalog()).encode(_parts(item)), digest_size=16
    ).digest()


def _parts(item: CatalogObject) -> tuple[object, ...]:
    return tuple(getattr(item, name) for name in inspect.signature(type(item)).parameters)


def _key(
    job: JobText, catalog: Catalog, settings: Mapping[str, str], functions: Sequence[str]
) -> bytes:
    options = (part for item in sorted(settings.items()) for part in item)
    return _hash(
        (
            _code(),
            job.name,
            job.file or "",
            catalog.catalog,
            catalog.database,
            job.sql,
            *functions,
            *options,
        )
    )


def _hash(parts: Iterable[str]) -> bytes:
    h = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(4, "little") + data)
    return h.digest()


@cache
def _code() -> str:
    """A hash of the code that plans: another version plans again."""
    archive = archive_of(Path(inspect.getfile(DataType)))
    # On executors of Spark the engine is a zip, whose name has the digest of its content.
    texts = [archive.name] if archive is not None else _texts(code_files())
    return _hash([version("sqlglot"), *texts]).hex()


def _texts(files: Iterable[Path]) -> list[str]:
    return [file.read_text(encoding="utf-8") for file in files]


def archive_of(file: Path) -> Path | None:
    """Returns the archive that a module was imported from; None where it is a file itself."""
    return next((folder for folder in file.parents if folder.is_file()), None)


def code_files() -> list[Path]:
    """The files whose change makes cached plans invalid: parser, planner, functions, and what a
    job's statements do."""
    folders = {Path(inspect.getfile(part)).parent for part in (DataType, plan, Definition)}
    own = (Path(inspect.getfile(part)) for part in (JobText, Script, check_place))
    return [*sorted(f for folder in folders for f in folder.rglob("*.py")), *own]
