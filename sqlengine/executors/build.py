"""From a physical node to its operator: the one table of what implements what."""

from __future__ import annotations

from pathlib import Path

from parser.errors import UnsupportedError
from planner.logical import (
    AssignWatermark,
    DropUpdateBefore,
    FromChangelog,
    GroupAggregate,
    Join,
    LogicalPlan,
    Normalize,
    Project,
    Scan,
    SetOperation,
    Stateful,
    TableFunction,
    ToChangelog,
    Union,
    UpsertMaterialize,
    Values,
    WindowAggregate,
    WindowAssign,
    time_origin,
)
from planner.physical import PhysicalNode
from planner.rule_sets import RulesPlan
from rules.options import Options
from rules.ruleset import RuleSet
from sqlengine.expressions import evaluate
from sqlengine.formats.registry import decoder_for
from sqlengine.operators.base import Operator
from sqlengine.operators.changelog_rows import DropUpdateBeforeOperator, FromChangelogOperator, ToChangelogOperator
from sqlengine.operators.group_aggregate import GroupAggregateOperator
from sqlengine.operators.join import JoinOperator
from sqlengine.operators.normalize import NormalizeOperator
from sqlengine.operators.project import ProjectOperator
from sqlengine.operators.resolve_conflicts import ResolveConflictsOperator
from sqlengine.operators.row_by_row import RowByRowOperator
from sqlengine.operators.rules import CompiledRules, RulesOperator, compile_rules
from sqlengine.operators.scan import ScanOperator
from sqlengine.operators.set_operation import SetOperationOperator
from sqlengine.operators.table_function import TableFunctionOperator
from sqlengine.operators.union import UnionOperator
from sqlengine.operators.upsert_materialize import UpsertMaterializeOperator
from sqlengine.operators.values import ValuesOperator
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.operators.window_aggregate import WindowAggregateOperator
from sqlengine.operators.window_assign import WindowAssignOperator


class OperatorFactory:
    """Builds operators. `options` are the switches of the rules; `folder` keeps compiled pattern databases."""

    def __init__(self, options: Options | None = None, folder: Path | None = None) -> None:
        self._options = options or Options(folder=folder)

    def reusable(self, old: PhysicalNode, new: PhysicalNode) -> bool:
        """Whether the running operator of `old` does for `new`: only where it goes may differ."""
        if isinstance(new.plan, RulesPlan):
            return old.plan == new.plan
        return not isinstance(new.plan, Scan | Project | TableFunction) or old.columns == new.columns

    def build(self, node: PhysicalNode, previous: Operator | None) -> Operator:
        """A new operator. A set of rules is made from the one that runs, so that only the difference is compiled."""
        operator = self._build(node, previous)
        rows = isinstance(node.plan, Stateful) and node.plan.row_by_row
        return RowByRowOperator(operator) if rows else operator

    def _build(self, node: PhysicalNode, previous: Operator | None) -> Operator:  # a table, case by case
        plan = node.plan
        match plan:
            case RulesPlan():
                return RulesOperator(self._compile(plan, previous))
            case Scan():
                names = set(node.columns)
                columns = tuple(c for c in plan.table.physical if c.name in names)
                return ScanOperator(plan.table, node.columns, decoder_for(plan.table, columns))
            case Project():
                return ProjectOperator(plan, node.columns, _owner(node))
            case TableFunction():
                return TableFunctionOperator(plan, node.columns, _owner(node))
            case AssignWatermark():
                return WatermarkOperator(plan, evaluate)
            case Union():
                return UnionOperator(plan.schema, len(plan.inputs), len({time_origin(i) for i in plan.inputs}) == 1)
            case Values():
                return ValuesOperator(plan, _owner(node))
        return _of_rows_together(plan, _owner(node))

    def _compile(self, plan: RulesPlan, previous: Operator | None) -> CompiledRules:
        held = previous.compiled if isinstance(previous, RulesOperator) else None
        return compile_rules(plan, RuleSet.empty(self._options), held)


def _owner(node: PhysicalNode) -> str:
    """The job that a row in error belongs to; rows that several jobs share belong to the table."""
    return next(iter(node.jobs)) if len(node.jobs) == 1 else ""


def _of_rows_together(plan: LogicalPlan, owner: str) -> Operator:
    """The operations that look at more than a row at a time."""
    match plan:
        case WindowAssign():
            return WindowAssignOperator(plan)
        case WindowAggregate():
            return WindowAggregateOperator(plan, owner)
        case GroupAggregate():
            return GroupAggregateOperator(plan, owner)
        case SetOperation():
            return SetOperationOperator(plan)
        case Join():
            return JoinOperator(plan, owner)
        case Normalize() | UpsertMaterialize() | DropUpdateBefore() | ToChangelog() | FromChangelog():
            return _of_changes(plan, owner)
    raise UnsupportedError(f"the embedded executor cannot run {type(plan).__name__}")


def _of_changes(
    plan: Normalize | UpsertMaterialize | DropUpdateBefore | ToChangelog | FromChangelog, owner: str
) -> Operator:
    """What makes changes whole, leaves them out, keeps them for a key or turns them into rows and back."""
    match plan:
        case Normalize():
            return NormalizeOperator(plan)
        case UpsertMaterialize(conflict="DEDUPLICATE"):
            return UpsertMaterializeOperator(plan)
        case UpsertMaterialize():
            return ResolveConflictsOperator(plan, owner)
        case DropUpdateBefore():
            return DropUpdateBeforeOperator(plan)
        case ToChangelog():
            return ToChangelogOperator(plan)
        case FromChangelog():
            return FromChangelogOperator(plan, owner)
