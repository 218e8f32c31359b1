"""Changes of a catalog by statements: CREATE, ALTER and DROP of objects, databases and catalogs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeAlias

from parser import parse
from parser.alterations import (
    Action,
    Alter,
    Drop,
    Rename,
    ResetOptions,
    SetComment,
    SetOptions,
    SetQuery,
)
from parser.errors import (
    ObjectExists,
    PlanError,
    Position,
    ServiceError,
    SqlError,
    UnknownObject,
    UnsupportedError,
)
from parser.statements import CreateCatalog, CreateDatabase, CreateTable, CreateView, Kind
from parser.writer.statements import write
from planner.binder.alterations import altered
from planner.binder.derived import definition_of
from planner.catalog import Catalog, CatalogObject, Container, Identifier, Table, View

# A definition, bound in a catalog.
Bind: TypeAlias = Callable[[CreateTable | CreateView, Catalog], Table | View]

_IN_MEMORY = "generic_in_memory"


def full_name(name: Identifier) -> str:
    """Returns a name as job logs and messages write it: catalog.database.object."""
    return ".".join(name).rstrip(".")


def without(catalog: Catalog, names: Collection[str]) -> Catalog:
    """The catalog without some objects."""
    for item in [i for i in catalog.objects if full_name(i) in names]:
        catalog = catalog.drop(item)
    return catalog


def check_new(catalog: Catalog, item: CatalogObject, position: Position | None) -> None:
    """Refuses a name that is in use, and a permanent object in a database that is not there."""
    existing = (catalog.temporary if item.temporary else catalog.objects).get(item.name)
    if existing is not None:
        kind = "temporary object" if item.temporary else "object"
        raise ObjectExists(
            f"{kind} '{item.name[2]}' exists already",
            detail=".".join(item.name),
            hint="drop it first, or write IF NOT EXISTS",
            position=position,
        )
    check_place(catalog, item, position)


def check_place(catalog: Catalog, item: CatalogObject, position: Position | None) -> None:
    """Refuses a permanent table or view in a database that is not there."""
    if (
        isinstance(item, Table | View)
        and not item.temporary
        and item.name[:2] not in catalog.databases
    ):
        raise unknown_database(item.name[:2], position)


def unknown_database(name: tuple[str, ...], position: Position | None) -> UnknownObject:
    message = f"database '{'.'.join(name[:2])}' does not exist"
    return UnknownObject(message, hint="SHOW DATABASES lists those of a catalog", position=position)


# ---- databases and catalogs ----------------------------------------------------------------------


def database_of(catalog: Catalog, name: tuple[str, ...]) -> tuple[str, str]:
    """Catalog and name of a database named by one or two parts."""
    return (catalog.catalog, name[0]) if len(name) == 1 else (name[0], name[1])


def described(catalog: Catalog, statement: CreateDatabase | CreateCatalog) -> Container:
    """Returns the database or catalog that the statement describes, whether it exists or not."""
    if isinstance(statement, CreateCatalog):
        _check_catalog(dict(statement.options), statement.position)
        return Container((statement.name[0], "", ""), dict(statement.options), statement.comment)
    name = database_of(catalog, statement.name)
    if not has_catalog(catalog, name):
        raise _unknown_catalog(name[0], statement.position)
    return Container((*name, ""), dict(statement.options), statement.comment)


def with_container(catalog: Catalog, statement: CreateDatabase | CreateCatalog) -> Catalog:
    """Returns the catalog after CREATE DATABASE or CREATE CATALOG."""
    made = described(catalog, statement)
    exists = made.name[:2] in catalog.databases if made.name[1] else has_catalog(catalog, made.name)
    if not exists:
        return catalog.put(made)
    if statement.if_not_exists:
        return catalog
    message = f"'{'.'.join(statement.name)}' exists already"
    raise ObjectExists(message, hint="write IF NOT EXISTS", position=statement.position)


def _check_catalog(options: dict[str, str], position: Position | None) -> None:
    """Refuses catalogs other than those in memory, which live as long as the session or job."""
    if options.get("type") != _IN_MEMORY:
        given = f"type '{options['type']}'" if "type" in options else "a catalog without a type"
        hint = f"write WITH ('type' = '{_IN_MEMORY}')"
        raise UnsupportedError(f"{given} is not supported", hint=hint, position=position)
    unknown = next((k for k in options if k not in ("type", "default-database")), None)
    if unknown is not None:
        message = f"unknown option '{unknown}' of a catalog"
        raise PlanError(message, hint="'type' and 'default-database' are there", position=position)


def has_catalog(catalog: Catalog, name: tuple[str, ...]) -> bool:
    return any(c == name[0] for c, _ in catalog.databases)


def _unknown_catalog(name: str, position: Position | None) -> UnknownObject:
    return UnknownObject(
        f"catalog '{name}' does not exist", hint="SHOW CATALOGS lists all", position=position
    )


def without_container(catalog: Catalog, statement: Drop) -> Catalog:
    """After DROP DATABASE or DROP CATALOG. What is in use, or not empty without CASCADE, stays."""
    whole = statement.kind is Kind.CATALOG
    name = (statement.name[0],) if whole else database_of(catalog, statement.name)
    exists = has_catalog(catalog, name) if whole else name in catalog.databases
    if not exists:
        if statement.if_exists:
            return catalog
        where = statement.subject
        raise _unknown_catalog(name[0], where) if whole else unknown_database(name, where)
    size = len(name)
    if name == (catalog.catalog, catalog.database)[:size]:
        hint = "USE another one first"
        raise PlanError(f"'{'.'.join(name)}' is in use", hint=hint, position=statement.subject)
    inside = [n for n in catalog.objects if n[:size] == name]
    if not whole and not statement.cascade and any(n[2] for n in inside):
        message = f"database '{'.'.join(name)}' is not empty"
        raise PlanError(
            message, hint="write CASCADE to drop what is in it, too", position=statement.subject
        )
    return replace(catalog, objects={k: v for k, v in catalog.objects.items() if k not in inside})


def _altered_container(catalog: Catalog, statement: Alter) -> Catalog:
    whole = statement.kind is Kind.CATALOG
    name: Identifier = (
        (statement.name[0], "", "") if whole else (*database_of(catalog, statement.name), "")
    )
    container = catalog.objects.get(name)
    if not isinstance(container, Container):
        if not whole and name[:2] in catalog.databases:
            return catalog.replaced(name, Container(name, _options({}, statement.action)))
        where = statement.position
        raise _unknown_catalog(name[0], where) if whole else unknown_database(name[:2], where)
    if isinstance(statement.action, SetComment):
        return catalog.replaced(name, replace(container, comment=statement.action.comment))
    options = _options(dict(container.options), statement.action)
    if whole:
        _check_catalog(options, statement.position)
    return catalog.replaced(name, replace(container, options=options))


def _options(options: dict[str, str], action: Action) -> dict[str, str]:
    if isinstance(action, SetOptions):
        return options | dict(action.options)
    keys = action.keys if isinstance(action, ResetOptions) else ()
    return {k: v for k, v in options.items() if k not in keys}


# ---- ALTER ---------------------------------------------------------------------------------------


def after(catalog: Catalog, statement: Alter, bind: Bind) -> Catalog:
    """The catalog after ALTER of a table, a view, a database or a catalog. Temporary objects are
    never altered."""
    if statement.kind in (Kind.DATABASE, Kind.CATALOG):
        return _altered_container(catalog, statement)
    kind = Table if statement.kind is Kind.TABLE else View
    existing = catalog.permanent(statement.name)
    if existing is None and statement.if_exists:
        return catalog
    if not isinstance(existing, Table | View):
        message = (
            f"{statement.kind.lower()} '{'.'.join(statement.name)}' does not exist, or is temporary"
        )
        raise UnknownObject(
            message, hint="drop a temporary one and create it again", position=statement.position
        )
    if not isinstance(existing, kind):
        other = "view" if isinstance(existing, View) else "table"
        hint = f"write ALTER {other.upper()}"
        raise PlanError(
            f"'{existing.name[2]}' is a {other}", hint=hint, position=statement.position
        )
    try:
        made = _made(catalog, existing, statement, bind)
    except SqlError as error:
        # Others are of the definition, whose text nobody sees.
        places = statement.action.places if isinstance(statement.action, SetOptions) else {}
        error.position = places.get(error.subject or "", statement.position)
        raise
    return refreshed(catalog.replaced(existing.name, made), existing.name, bind)


def _made(catalog: Catalog, existing: Table | View, statement: Alter, bind: Bind) -> Table | View:
    home = catalog.with_use(catalog=existing.name[0], database=existing.name[1])
    definition = definition_of(existing) if isinstance(existing, Table) else view_of(existing)
    if isinstance(statement.action, Rename):
        name = _new_name(catalog, existing, statement, statement.action)
        definition = replace(definition, name=name)
        return (
            replace(existing, name=name, sql=write(definition))
            if isinstance(existing, View)
            else bind(definition, home)
        )
    if isinstance(definition, CreateTable):
        return bind(altered(definition, statement.action), home)
    assert isinstance(statement.action, SetQuery)
    return bind(
        replace(definition, name=existing.name, columns=(), query=statement.action.query), catalog
    )


def _new_name(
    catalog: Catalog, existing: Table | View, statement: Alter, action: Rename
) -> Identifier:
    """Renaming never moves an object to another database; of several parts the last one counts."""
    name = (*existing.name[:2], action.name[-1])
    if len(action.name) > 1 and catalog.resolve(action.name) != name:
        hint = "create it there, and drop this one"
        raise PlanError(
            "RENAME cannot move an object to another database",
            hint=hint,
            position=statement.position,
        )
    if name in catalog.objects:
        raise ObjectExists(
            f"'{name[2]}' exists already", hint="choose another name", position=statement.position
        )
    return name


def view_of(view: View) -> CreateView:
    """The statement that makes the view."""
    (statement,) = parse(view.sql)
    assert isinstance(statement, CreateView)
    return statement


def refreshed(catalog: Catalog, name: Identifier, bind: Bind) -> Catalog:
    """The catalog with the views that name an object bound again, and those over these; what cannot
    be bound any more is broken until what it names is back."""
    waiting, seen = [name], set[Identifier]()
    while waiting:
        changed = waiting.pop()
        for existing in [
            o
            for o in (*catalog.objects.values(), *catalog.temporary.values())
            if isinstance(o, View)
        ]:
            if existing.name in seen or changed not in _read_by(existing, catalog):
                continue
            seen.add(existing.name)
            catalog = _rebound(catalog, existing, bind)
            waiting.append(existing.name)
    return catalog


def _read_by(view: View, catalog: Catalog) -> set[Identifier]:
    """The names in a view's query."""
    home = catalog.with_use(catalog=view.home[0], database=view.home[1])
    return {home.resolve(name) for name in view.reads}


def _rebound(catalog: Catalog, view: View, bind: Bind) -> Catalog:
    home = catalog.with_use(catalog=view.home[0], database=view.home[1])
    try:
        made = bind(replace(view_of(view), name=view.name), home)
        assert isinstance(made, View)
        fresh = replace(made, sql=view.sql)
    except ServiceError:  # it has not been tried
        raise
    except SqlError as error:
        fresh = replace(view, broken=error.message)
    if view.temporary:
        return replace(catalog, temporary={**catalog.temporary, view.name: fresh})
    return catalog.replaced(view.name, fresh)
