"""LOAD, UNLOAD and USE MODULES: Flink's one module, core, which is loaded or not. Its functions can
be called all the same, as in Flink."""

from __future__ import annotations

from parser.errors import PlanError, Position
from parser.statements import LoadModule, UnloadModule, UseModules

CORE = "core"


def after(
    loaded: tuple[str, ...], statement: LoadModule | UnloadModule | UseModules
) -> tuple[str, ...]:
    """The modules that are loaded after the statement."""
    match statement:
        case LoadModule():
            return (*loaded, _new(loaded, statement))
        case UnloadModule():
            _check_loaded(statement.name, loaded, statement.position)
            return tuple(m for m in loaded if m != statement.name)
    for index, name in enumerate(statement.names):
        _check_loaded(name, loaded, statement.position)
        if name in statement.names[:index]:
            raise PlanError(f"module '{name}' is named twice", position=statement.position)
    return loaded


def _new(loaded: tuple[str, ...], statement: LoadModule) -> str:
    if statement.name in loaded:
        raise PlanError(f"module '{statement.name}' is loaded already", position=statement.position)
    if statement.name != CORE:
        hint = (
            f"'{CORE}' is there; write other functions in Python: CREATE FUNCTION … LANGUAGE PYTHON"
        )
        raise PlanError(
            f"unknown module '{statement.name}'", hint=hint, position=statement.position
        )
    if statement.options:
        key = next(iter(statement.options))
        raise PlanError(f"unknown option '{key}' of module '{CORE}'", position=statement.position)
    return CORE


def _check_loaded(name: str, loaded: tuple[str, ...], position: Position | None) -> None:
    if name not in loaded:
        raise PlanError(
            f"module '{name}' is not loaded", hint="SHOW MODULES lists all", position=position
        )
