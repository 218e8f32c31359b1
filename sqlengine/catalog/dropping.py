"""DROP of the objects of a job or a script."""

from __future__ import annotations

from parser.errors import JobError, UnknownObject
from parser.statements import Drop
from planner.catalog import Catalog, CatalogObject, Table, View


def drop_temporary(catalog: Catalog, statement: Drop) -> Catalog:
    """The catalog after DROP of a job's temporary object. JobError for a permanent one, which is
    removed together with the job that defines it."""
    item = dropped_object(catalog, statement)
    if item is None:
        if statement.if_exists:
            return catalog
        raise UnknownObject(
            f"{statement.kind.lower()} '{'.'.join(statement.name)}' does not exist",
            position=statement.subject,
        )
    if not item.temporary:
        raise JobError(
            f"'{item.name[2]}' belongs to the job that defines it",
            hint="remove that job ('sql remove JOB'), or use CREATE TEMPORARY for a private object",
        )
    return catalog.drop(item.name)


def dropped_object(catalog: Catalog, statement: Drop) -> CatalogObject | None:
    """The object that DROP names; None where there is none."""
    if statement.kind == "FUNCTION":
        name = catalog.resolve_function(statement.name, system=statement.system)
        return catalog.temporary.get(name) or (
            None if statement.temporary else catalog.objects.get(name)
        )
    item = catalog.get(statement.name)
    kinds: dict[str, type[CatalogObject]] = {"TABLE": Table, "VIEW": View}
    return item if isinstance(item, kinds[statement.kind]) else None
