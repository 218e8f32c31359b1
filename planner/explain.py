"""Plans as text for people and as JSON for programs, derived from the properties of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from planner.logical import LogicalPlan, Stateful
from planner.scalar import UTC, Call, walk

# JSON as json.dumps takes it.
Json = dict[str, "Json"] | list["Json"] | str


def explain(plan: LogicalPlan, *, schema: bool = False) -> str:
    """The plan as text: a line for each node with its inputs indented below, with operation, label
    and, in brackets, the effect of settings. With `schema` lines end with the node's columns."""
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
    """The plan as nested dictionaries: operation, label, notes (the effect of settings), schema
    (name and type of each column), inputs."""
    return {
        "operation": type(plan).__name__,
        "label": plan.label,
        "notes": list(_notes(plan)),
        "schema": [{"name": c.name, "type": str(c.type)} for c in plan.schema],
        "inputs": [explain_json(i) for i in plan.inputs],
    }


def _notes(node: LogicalPlan) -> Iterator[str]:
    """Yields the effects of settings on a node that its label does not have."""
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
