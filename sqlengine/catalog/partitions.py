"""SHOW PARTITIONS: those that a table's connector knows of."""

from __future__ import annotations

from sqlglot import exp

from parser.errors import PlanError
from parser.statements import Show
from planner.catalog import Catalog, Table
from sqlengine.batch import Batch
from sqlengine.catalog.describe import held_object, one_column
from sqlengine.connectors.registry import connector_of
from sqlengine.system.file_access import FileAccess


def show_partitions(catalog: Catalog, statement: Show, files: FileAccess) -> Batch:
    """Returns the partitions of a table, or those with the values of PARTITION (…).

    Raises PlanError for a table that is not partitioned.
    """
    table = held_object(catalog, statement.name or (), statement.position)
    if not isinstance(table, Table) or not table.partition_keys:
        raise PlanError(f"'{table.name[2]}' has no partitions", position=statement.position)
    connector = connector_of(table)
    if not connector.capabilities.partitioning:
        raise PlanError(
            f"connector '{connector.name}' has no partitions", position=statement.position
        )
    wanted: dict[str, str] = {}
    for part in statement.partition:
        if part.name not in table.partition_keys:
            hint = "partition columns: " + ", ".join(table.partition_keys)
            message = f"'{part.name}' is no partition column of table '{table.display}'"
            raise PlanError(message, hint=hint, position=statement.position)
        literal = part.value.find(exp.Literal) if part.value is not None else None
        wanted[part.name] = literal.name if literal is not None else ""
    return one_column("partition name", connector.partitions(table, wanted, files))
