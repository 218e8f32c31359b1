"""A session of a client on a server: what its statements have set for those behind them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.catalog import Catalog, CatalogObject, Function, Identifier, Table, View
from planner.settings import MINI_BATCH
from sqlengine.catalog.modules import CORE
from sqlengine.queries.ad_hoc import AdHocSession
from udf.reference import function_names

# Settings for people who look at tables, with which a session begins.
LOOKING: Final[Mapping[str, str]] = {MINI_BATCH: "true", "job.on-error": "dead-letter"}


@dataclass
class ClientSession:
    """A client's session: temporary objects, current database and settings, as its statements left
    them.

    `used_at`: when a statement last came (monotonic seconds); `by`: the name of its principal.
    `own`: objects that are permanent by their statements, and yet seen by this session alone;
    `pending`: the texts of the INSERTs of a statement set that has begun, None outside of one."""

    temporary: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    catalog: str | None = None
    database: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = (CORE,)
    used_at: float = field(default_factory=time.monotonic)
    by: str = ""
    own: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    pending: tuple[str, ...] | None = None

    def place_in(self, catalog: Catalog) -> Catalog:
        """Returns the server's catalog as this session sees it."""
        objects = {**catalog.objects, **self.own} if self.own else catalog.objects
        catalog = replace(catalog, objects=objects, temporary=self.temporary)
        return catalog.with_use(catalog=self.catalog, database=self.database)

    def keep(self, session: AdHocSession, shared: Catalog) -> None:
        """Keeps what a statement has set. `shared`: the server's catalog as it saw it."""
        self.temporary, self.modules = session.catalog.temporary, session.modules
        self.catalog, self.database = session.catalog.catalog, session.catalog.database
        self.settings = dict(session.settings)
        self.own = own_objects(session.catalog, shared)


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
