"""ALTER FUNCTION: another definition for a user's function."""

from __future__ import annotations

from parser.alterations import Alter, SetFunction
from parser.errors import PlanError, UnknownObject
from parser.statements import CreateFunction
from planner.binder.scope import Load
from planner.catalog import Catalog, Function


def altered_function(catalog: Catalog, statement: Alter, load: Load) -> Catalog:
    """The catalog after ALTER FUNCTION … AS. Temporary functions are never altered."""
    assert isinstance(statement.action, SetFunction)
    if statement.temporary:
        hint = "drop it and create it again"
        raise PlanError(
            "temporary functions cannot be altered", hint=hint, position=statement.position
        )
    name = catalog.resolve_function(statement.name)
    existing = catalog.objects.get(name)
    if not isinstance(existing, Function):
        if statement.if_exists:
            return catalog
        message = f"function '{'.'.join(statement.name)}' does not exist"
        raise UnknownObject(
            message, hint="SHOW USER FUNCTIONS lists all", position=statement.position
        )
    action = statement.action
    language = action.language or existing.language
    made = CreateFunction(statement.name, action.class_name, language, position=statement.position)
    return catalog.replaced(name, Function(name, action.class_name, language, load(made)))
