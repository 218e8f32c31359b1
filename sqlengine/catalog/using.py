"""USE: the catalog and the database that names stand in from there on."""

from __future__ import annotations

from parser.errors import UnknownObject
from parser.statements import Use
from planner.catalog import DEFAULT_DATABASE, Catalog, Container
from sqlengine.catalog.changes import database_of, has_catalog, unknown_database


def use(catalog: Catalog, statement: Use) -> Catalog:
    """The catalog after USE. UnknownObject for a catalog or a database that does not exist."""
    name = statement.name
    if statement.catalog:
        if not has_catalog(catalog, name):
            raise UnknownObject(f"catalog '{name[0]}' does not exist", position=statement.position)
        container = catalog.objects.get((name[0], "", ""))
        default = DEFAULT_DATABASE
        if isinstance(container, Container):
            default = container.default_database
        same = name[0] == catalog.catalog
        return catalog if same else catalog.with_use(catalog=name[0], database=default)
    target = database_of(catalog, name)
    if target not in catalog.databases:
        raise unknown_database(target, statement.position)
    return catalog.with_use(catalog=target[0], database=target[1])
