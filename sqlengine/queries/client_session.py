"""A session of a client on a server: what its statements have set for those behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parser.errors import PlanError
from parser.limits import present
from planner.catalog import Catalog, CatalogObject, Function, Identifier, Table, View
from planner.settings import MINI_BATCH
from sqlengine.catalog.modules import CORE
from sqlengine.queries.ad_hoc import AdHocSession
from udf.reference import function_names

# Settings for people who look at tables, with which a session begins.
LOOKING: Final[Mapping[str, str]] = {MINI_BATCH: "true", "job.on-error": "dead-letter"}
# Characters for which an object or a setting counts besides those of its text.
_EACH: Final = 100


@dataclass
class ClientSession:
    """A client's session: temporary objects, current database and settings, as its statements left
    them.

    `used_at`: when a statement last came (monotonic seconds); `by`: the name of its principal.
    `own`: objects that are permanent by their statements, and yet seen by this session alone;
    `pending`: the texts of the INSERTs of a statement set that has begun, None outside of one.
    `others`: the size of what else its principal's sessions keep. `rights` raises the SqlError for
    which who has used it last may not ask any more."""

    temporary: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    catalog: str | None = None
    database: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = (CORE,)
    used_at: float = field(default_factory=time.monotonic)
    by: str = ""
    own: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    pending: tuple[str, ...] | None = None
    others: Callable[[], int] = lambda: 0
    rights: Callable[[], object] = lambda: None

    @property
    def size(self) -> int:
        """The characters of what is kept, about: a plan has some hundred bytes for each."""
        items = [*self.temporary.values(), *self.own.values()]
        settings = sum(len(k) + len(v) + _EACH for k, v in self.settings.items())
        return sum(map(_size_of, items)) + settings + sum(map(len, self.pending or ()))

    def place_in(self, catalog: Catalog) -> Catalog:
        """Returns the server's catalog as this session sees it."""
        objects = {**catalog.objects, **self.own} if self.own else catalog.objects
        catalog = replace(catalog, objects=objects, temporary=self.temporary)
        return catalog.with_use(catalog=self.catalog, database=self.database)

    def keep(self, session: AdHocSession, shared: Catalog) -> None:
        """Keeps what a statement has set. `shared`: the server's catalog as it saw it. PlanError
        where that is more than a principal's sessions may keep."""
        catalog = session.catalog
        kept = replace(
            self,
            temporary=catalog.temporary,
            own=own_objects(catalog, shared),
            settings=dict(session.settings),
        )
        self.check_room(kept)
        self.temporary, self.own, self.settings = kept.temporary, kept.own, kept.settings
        self.catalog, self.database = catalog.catalog, catalog.database
        self.modules = session.modules

    def check_room(self, kept: ClientSession) -> None:
        """Raises PlanError where the session, as it would be, is too large. One that becomes
        smaller never is."""
        size, most = kept.size, present().session_size
        if size <= self.size or size + (others := self.others()) <= most:
            return
        elsewhere = f", and {others:,} in other sessions of the same client" if others else ""
        raise PlanError(
            f"{_added(self, kept)} has no room in the session: at most {most:,} characters are"
            " kept ('session-size')",
            detail=f"with it {size:,} would be here{elsewhere}",
            hint="drop what is not needed, or close sessions; 'sql serve --limit session-size=…'"
            " allows more",
        )


def _added(before: ClientSession, after: ClientSession) -> str:
    """Returns what a session has more than before, for people."""
    known = {**before.own, **before.temporary}
    for name, item in [*after.temporary.items(), *after.own.items()]:
        if known.get(name) is not item:
            return f"{type(item).__name__.lower()} '{item.name[2]}'"
    changed = [k for k, v in after.settings.items() if before.settings.get(k) != v]
    if changed:
        return f"setting '{max(changed, key=lambda k: len(after.settings[k]))[:100]}'"
    return "the statement set"


def _size_of(item: CatalogObject) -> int:
    match item:
        case View():
            return len(item.sql) + _EACH
        case Table():
            return len(item.definition) + _EACH
        case Function():
            return len(item.class_name) + _EACH
    return sum(len(k) + len(v) for k, v in item.options.items()) + len(item.comment or "") + _EACH


def own_objects(catalog: Catalog, shared: Catalog) -> Mapping[Identifier, CatalogObject]:
    """Returns the permanent objects of a catalog that are not those of another one."""
    if catalog.objects is shared.objects:
        return {}
    return {n: o for n, o in catalog.objects.items() if shared.objects.get(n) is not o}


@dataclass(frozen=True)
class Names:
    """The names that a session can write, for completion: tables and views with their columns."""

    tables: Mapping[str, Sequence[str]]
    functions: Sequence[str]
    jobs: Sequence[str]


def names_in(catalog: Catalog, jobs: Sequence[str]) -> Names:
    """Returns the names of a catalog."""
    relations = [(n, catalog.get((n,))) for k in (Table, View) for n in catalog.names(k)]
    tables = {n: _columns(o) for n, o in sorted(relations, key=lambda r: r[0])}
    functions = sorted({*function_names(), *catalog.names(Function)}, key=str.lower)
    return Names(tables, functions, jobs)


def _columns(relation: CatalogObject | None) -> Sequence[str]:
    match relation:
        case Table():
            return relation.schema.names
        case View():
            return relation.plan.schema.names
    return ()
