"""Plans for people (text) and for programs (JSON), derived from what every node tells of itself."""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical import LogicalPlan
from planner.optimizer import NONE, optimize

# JSON as json.dumps takes it.
Json = dict[str, "Json"] | list["Json"] | str


def explain(plan: LogicalPlan, *, schema: bool = False) -> str:
    """One line a node, inputs indented below; with `schema`, each line ends with the columns that
    the node gives."""
    lines: list[str] = []
    stack = [(plan, 0)]
    while stack:
        node, depth = stack.pop()
        columns = f"  -> {node.schema}" if schema else ""
        lines.append("  " * depth + f"{type(node).__name__} {node.label}".rstrip() + columns)
        stack.extend((i, depth + 1) for i in reversed(node.inputs))
    return "\n".join(lines)


def explain_json(plan: LogicalPlan) -> Json:
    """The same as nested dictionaries: operation, label, schema (name and type of each column),
    inputs."""
    return {
        "operation": type(plan).__name__,
        "label": plan.label,
        "schema": [{"name": c.name, "type": str(c.type)} for c in plan.schema],
        "inputs": [explain_json(i) for i in plan.inputs],
    }


def steps(plan: LogicalPlan, *, disabled: frozenset[str] = NONE) -> list[tuple[str, LogicalPlan]]:
    """The plan as it was bound (named 'bind') and after every pass that changed something."""
    result: list[tuple[str, LogicalPlan]] = [("bind", plan)]

    def observe(name: str, after: LogicalPlan) -> None:
        if after.digest != result[-1][1].digest:
            result.append((name, after))

    optimize(plan, disabled=disabled, observe=observe)
    return result


def explain_steps(plans: Sequence[LogicalPlan], *, disabled: frozenset[str] = NONE) -> str:
    """Every plan after binding and after every pass that changed it, each under a heading."""
    parts = []
    for plan in plans:
        parts += [
            f"== {name} ==\n{explain(after)}" for name, after in steps(plan, disabled=disabled)
        ]
    return "\n\n".join(parts)
