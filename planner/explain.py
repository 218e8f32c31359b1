"""Plans for people (text) and for programs (JSON), derived from what every node tells of itself."""

from __future__ import annotations

from collections.abc import Iterator

from planner.logical import LogicalPlan, Stateful
from planner.scalar import UTC, Call, walk

# JSON as json.dumps takes it.
Json = dict[str, "Json"] | list["Json"] | str


def explain(plan: LogicalPlan, *, schema: bool = False) -> str:
    """One line a node, inputs indented below: operation, label, and in brackets what settings make
    of it. With `schema`, each line ends with the columns that the node gives."""
    lines: list[str] = []
    stack = [(plan, 0)]
    while stack:
        node, depth = stack.pop()
        notes = ", ".join(_notes(node))
        columns = f"  -> {node.schema}" if schema else ""
        line = f"{type(node).__name__} {node.label}".rstrip() + (f"  [{notes}]" if notes else "")
        lines.append("  " * depth + line + columns)
        stack.extend((i, depth + 1) for i in reversed(node.inputs))
    return "\n".join(lines)


def explain_json(plan: LogicalPlan) -> Json:
    """The plan as nested dictionaries: operation, label, notes (what settings make of it), schema
    (name and type of each column), inputs."""
    return {
        "operation": type(plan).__name__,
        "label": plan.label,
        "notes": list(_notes(plan)),
        "schema": [{"name": c.name, "type": str(c.type)} for c in plan.schema],
        "inputs": [explain_json(i) for i in plan.inputs],
    }


def _notes(node: LogicalPlan) -> Iterator[str]:
    """What settings make of a node, as far as its label does not have it."""
    if isinstance(node, Stateful):
        if node.row_by_row:
            yield "row by row"
        if node.ttl_ms:
            yield f"state TTL {node.ttl_ms} ms"
        if node.late is not None:
            yield f"late rows to {node.late.table.display}"
        elif node.tells_late:
            yield "late rows to dead letters"
    calls = (c for e in node.expressions for c in walk(e) if isinstance(c, Call))
    for zone in sorted({c.zone for c in calls} - {UTC}):
        yield f"in time zone {zone}"
