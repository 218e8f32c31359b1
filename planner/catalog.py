"""The catalog: tables, views, functions, databases and catalogs by name, those of one job
(temporary) and those of all (permanent)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from parser import parse
from parser.definitions import CreateView
from parser.errors import ObjectExists
from planner.logical.node import LogicalPlan
from planner.tables import PARTITION, Identifier, MetadataColumn, Table, Watermark
from udf.user import UserFunction

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "PARTITION",
    "SYSTEM",
    "Catalog",
    "CatalogObject",
    "Container",
    "Function",
    "Identifier",
    "MetadataColumn",
    "Table",
    "View",
    "Watermark",
    "same_definition",
]

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
# The database of functions that belong to none: temporary system functions, and those of installed
# packages.
SYSTEM = ("", "")


@dataclass(frozen=True)
class View:
    """A named query, already bound.

    `home`: the catalog and the database in which its names are resolved; `broken`: why the query is
    no longer valid, after an object that it names was altered or dropped; `ordered`: the query ends
    in an ORDER BY of columns that it has, which is the root of the plan."""

    name: Identifier
    plan: LogicalPlan
    sql: str
    temporary: bool = False
    home: tuple[str, str] = (DEFAULT_CATALOG, DEFAULT_DATABASE)
    broken: str = ""
    ordered: bool = False

    @cached_property
    def reads(self) -> frozenset[tuple[str, ...]]:
        """The names of tables and views in its query, as they are written."""
        (statement,) = parse(self.sql)
        assert isinstance(statement, CreateView)
        tables = statement.query.find_all(exp.Table)
        names = (tuple(p.name for p in t.parts if isinstance(p, exp.Identifier)) for t in tables)
        return frozenset(n for n in names if 1 <= len(n) <= 3)


@dataclass(frozen=True)
class Function:
    """A user's function by name. `user`: the function in its module as the module was at CREATE
    FUNCTION. Functions have a namespace of their own beside tables: the last part of the identifier
    is lowercase and ends with `()`."""

    name: Identifier
    class_name: str
    language: str
    user: UserFunction
    temporary: bool = False

    @property
    def display(self) -> str:
        return self.name[2].removesuffix("()")


@dataclass(frozen=True)
class Container:
    """A database (`name` ends with an empty part) or a catalog (with two) that a statement created.
    A catalog's options have its type and its default database."""

    name: Identifier
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    temporary: bool = False

    @property
    def default_database(self) -> str:
        return self.options.get("default-database", "default")


CatalogObject = Table | View | Function | Container


@dataclass(frozen=True)
class Catalog:
    """An immutable catalog of the objects that a statement can name; a temporary one hides the
    permanent one of its name.

    A change returns another catalog, so that a job can be planned beside the stream and dropped
    when it fails."""

    objects: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    temporary: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE

    @property
    def databases(self) -> frozenset[tuple[str, str]]:
        """The catalog and the name of each database."""
        containers = (o for o in self.objects.values() if isinstance(o, Container))
        created = {(o.name[0], o.name[1] or o.default_database) for o in containers}
        return frozenset({(DEFAULT_CATALOG, DEFAULT_DATABASE), *created})

    def resolve(self, name: tuple[str, ...]) -> Identifier:
        """The full identifier of a name of one to three parts."""
        if len(name) == 1:
            return (self.catalog, self.database, name[0])
        return (self.catalog, name[0], name[1]) if len(name) == 2 else (name[0], name[1], name[2])

    def resolve_function(self, name: tuple[str, ...], *, system: bool = False) -> Identifier:
        """Returns the full identifier of a function, whose name has no case."""
        catalog, database = SYSTEM if system else self.resolve(name)[:2]
        return (catalog, database, f"{name[-1].lower()}()")

    def function(self, name: tuple[str, ...], *, built_in: bool = False) -> Function | None:
        """The user's function that a call of `name` refers to, by Flink's resolution order:
        temporary system functions, built-in ones (then None), system functions, temporary ones,
        permanent ones. A name with a database is looked up there alone."""
        system = self.resolve_function(name, system=True)
        own = self.resolve_function(name)
        places = [] if len(name) > 1 else [self.temporary.get(system)]
        if not built_in or len(name) > 1:
            places += [] if len(name) > 1 else [self.objects.get(system)]
            places += [self.temporary.get(own), self.objects.get(own)]
        return next((f for f in places if isinstance(f, Function)), None)

    def get(self, name: tuple[str, ...]) -> CatalogObject | None:
        identifier = self.resolve(name)
        return self.temporary.get(identifier) or self.objects.get(identifier)

    def permanent(self, name: tuple[str, ...]) -> CatalogObject | None:
        """The permanent object of that name; None where a temporary one hides it."""
        identifier = self.resolve(name)
        return None if identifier in self.temporary else self.objects.get(identifier)

    def replaced(self, name: Identifier, item: CatalogObject) -> Catalog:
        """Returns a catalog with `item` in the place of the permanent object `name`."""
        return replace(
            self, objects={**{k: v for k, v in self.objects.items() if k != name}, item.name: item}
        )

    def put(self, item: CatalogObject, *, if_not_exists: bool = False) -> Catalog:
        """Returns a catalog with `item`.

        An equal definition is accepted again; ObjectExists for a different one under a name in
        use."""
        objects = self.temporary if item.temporary else self.objects
        existing = objects.get(item.name)
        if existing is not None and not same_definition(existing, item):
            if if_not_exists:
                return self
            raise ObjectExists(
                f"'{item.name[2]}' exists already with another definition",
                detail=".".join(item.name),
                hint="drop the first"
                if item.temporary
                else "use CREATE TEMPORARY for a private one, or drop the first",
            )
        if existing is not None:
            return self
        changed = {**objects, item.name: item}
        return (
            replace(self, temporary=changed) if item.temporary else replace(self, objects=changed)
        )

    def drop(self, name: Identifier) -> Catalog:
        """Returns a catalog without the temporary object of that name, or if there is none without
        the permanent one."""
        if name in self.temporary:
            return replace(self, temporary={k: v for k, v in self.temporary.items() if k != name})
        return replace(self, objects={k: v for k, v in self.objects.items() if k != name})

    def with_use(self, *, catalog: str | None = None, database: str | None = None) -> Catalog:
        return replace(self, catalog=catalog or self.catalog, database=database or self.database)

    def names(
        self, kind: type[Table | View | Function], database: tuple[str, str] | None = None
    ) -> list[str]:
        """The sorted names of objects of a kind in a database, by default the current one."""
        here = database or (self.catalog, self.database)
        objects = {**self.objects, **self.temporary}
        if kind is Function:
            return sorted(
                {
                    o.display
                    for n, o in objects.items()
                    if n[:2] in (here, SYSTEM) and isinstance(o, Function)
                }
            )
        return sorted(n[2] for n, o in objects.items() if n[:2] == here and isinstance(o, kind))

    def places_of(self, name: str) -> list[str]:
        """The whole names of tables and views called `name`, in whatever database."""
        found = {**self.objects, **self.temporary}
        return sorted(
            ".".join(n) for n, o in found.items() if n[2] == name and isinstance(o, Table | View)
        )


def same_definition(a: CatalogObject, b: CatalogObject) -> bool:
    """True if no query can tell the two apart: of a view the plan counts, not its text."""
    if isinstance(a, View) and isinstance(b, View):
        return a.plan.digest == b.plan.digest
    return a == b
