"""Builds the operator of a physical node: the one table of which operator implements which node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from parser.errors import UnsupportedError
from planner.graph.family_nodes import FamilyRows, FamilyTail
from planner.graph.family_parameters import WithParameters
from planner.graph.physical import PhysicalNode
from planner.graph.rule_sets import RulesPlan
from planner.logical import (
    AlertPeriods,
    AskedScan,
    AssignWatermark,
    Constrain,
    DropUpdateBefore,
    EmittingAggregate,
    Expand,
    FromChangelog,
    GlobalAggregate,
    GlobalWindowAggregate,
    GroupAggregate,
    HoldBack,
    IntervalJoin,
    Join,
    LateRows,
    LocalAggregate,
    LocalWindowAggregate,
    LogicalPlan,
    LookupJoin,
    MappedScan,
    MatchRecognize,
    Materialize,
    NewTerm,
    Normalize,
    Over,
    ProcessFunction,
    Project,
    Rank,
    Scan,
    SessionAssign,
    SetOperation,
    ShuffleIn,
    ShuffleOut,
    ShuffleScan,
    Stateful,
    TableFunction,
    TemporalJoin,
    TemporalSort,
    ToChangelog,
    Union,
    UpsertMaterialize,
    Values,
    WindowAggregate,
    WindowAssign,
    WindowJoin,
    WindowRank,
    time_origin,
)
from rules.options import Options
from rules.ruleset import RuleSet
from sqlengine.connectors.boundary.naming import naming
from sqlengine.dimensions.versions import VersionFiles
from sqlengine.executors.build_windows import window_operator
from sqlengine.executors.wire import decode_batch, encode_batch
from sqlengine.expressions import evaluate
from sqlengine.formats.registry import decoder_for, value_metadata, with_any_times
from sqlengine.operators.aggregates.expand import ExpandOperator
from sqlengine.operators.aggregates.group_aggregate import GroupAggregateOperator
from sqlengine.operators.aggregates.two_phases import (
    GlobalAggregateOperator,
    LocalAggregateOperator,
)
from sqlengine.operators.alert_periods import AlertPeriodsOperator
from sqlengine.operators.base import Operator
from sqlengine.operators.changelog.constraint_enforcer import ConstraintEnforcerOperator
from sqlengine.operators.changelog.materialize import MaterializeOperator
from sqlengine.operators.changelog.normalize import NormalizeOperator
from sqlengine.operators.changelog.resolve_conflicts import ResolveConflictsOperator
from sqlengine.operators.changelog.rows import (
    DropUpdateBeforeOperator,
    FromChangelogOperator,
    ToChangelogOperator,
)
from sqlengine.operators.changelog.upsert_materialize import UpsertMaterializeOperator
from sqlengine.operators.family_rows import FamilyRowsOperator
from sqlengine.operators.family_tail import FamilyTailOperator
from sqlengine.operators.forward_watermarks import ForwardWatermarksOperator
from sqlengine.operators.functions.process_function import ProcessFunctionOperator
from sqlengine.operators.functions.table_function import TableFunctionOperator
from sqlengine.operators.held_back import HoldBackOperator
from sqlengine.operators.joins.asked import AskedDimension, Asker
from sqlengine.operators.joins.interval import IntervalJoinOperator
from sqlengine.operators.joins.lookup import LookupJoinOperator
from sqlengine.operators.joins.mapped import MappedDimension, VersionScanOperator
from sqlengine.operators.joins.regular import JoinOperator
from sqlengine.operators.joins.temporal import TemporalJoinOperator
from sqlengine.operators.late_rows import LateRowsOperator
from sqlengine.operators.match.operator import MatchOperator
from sqlengine.operators.new_terms import NewTermOperator
from sqlengine.operators.over.at_end import OverAtEndOperator
from sqlengine.operators.over.by_time import OverOperator
from sqlengine.operators.over.sorted import OverSortedOperator
from sqlengine.operators.project import ProjectOperator
from sqlengine.operators.ranks.first_row import FirstRowOperator
from sqlengine.operators.ranks.rank import RankOperator
from sqlengine.operators.ranks.temporal_sort import TemporalSortOperator
from sqlengine.operators.ranks.updating_rank import UpdatingRankOperator
from sqlengine.operators.row_by_row import RowByRowOperator
from sqlengine.operators.rules import CompiledRules, RulesOperator, compile_rules
from sqlengine.operators.scan import ScanOperator
from sqlengine.operators.set_operation import SetOperationOperator
from sqlengine.operators.shuffle import ShuffleInOperator, ShuffleOutOperator, ShuffleScanOperator
from sqlengine.operators.union import UnionOperator
from sqlengine.operators.values import ValuesOperator
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.operators.with_parameters import WithParametersOperator

P = TypeVar("P", bound=LogicalPlan)


class OperatorFactory:
    """Builds operators. `options` are those of rule sets; `any_times`: times in records may be
    of any standard, where a table names none; `families`: equal operations of many jobs run as
    one, but for those that have failed, which run `apart`, by id; `dimensions`: the folder of the
    versions of tables that rows are looked up in; `asker` opens tables that are asked for them."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        any_times: bool = False,
        families: bool = True,
        dimensions: Path | None = None,
        asker: Callable[[AskedScan], Asker] | None = None,
    ) -> None:
        self.families = families
        self.apart: set[str] = set()
        self._options = options or Options()
        self._any_times = any_times
        self._dimensions = dimensions
        self._asker = asker

    def with_asker(self, asker: Callable[[AskedScan], Asker]) -> OperatorFactory:
        """Returns a factory whose tables are asked otherwise."""
        changed = copy(self)
        changed._asker = asker
        return changed

    def reusable(self, old: PhysicalNode, new: PhysicalNode) -> bool:
        """True if the running operator of `old` can serve `new`, which may differ in its edges."""
        if isinstance(new.plan, WithParameters):
            return old.plan is new.plan
        if isinstance(new.plan, RulesPlan | ShuffleScan | ShuffleOut | ShuffleIn):
            return old.plan == new.plan
        return (
            not isinstance(new.plan, Scan | Project | TableFunction | Expand | LateRows)
            or old.columns == new.columns
        )

    def build(self, node: PhysicalNode, previous: Operator | None) -> Operator:
        """Builds a new operator. A rule set is derived from that of the `previous` operator, so
        that only the difference is compiled. UnsupportedError for a node without an operator."""
        plan = node.plan
        if isinstance(plan, FamilyTail):
            return FamilyTailOperator(plan, previous)
        if isinstance(plan, WithParameters):
            return WithParametersOperator(plan, previous)
        if isinstance(plan, FamilyRows):
            return FamilyRowsOperator(plan)
        if isinstance(plan, LookupJoin):
            return LookupJoinOperator(plan, self._beside(plan))
        if isinstance(plan, RulesPlan):
            return RulesOperator(self._compile(plan, previous))
        if isinstance(plan, Scan) and self._any_times:
            node = replace(node, plan=replace(plan, table=with_any_times(plan.table)))
        if type(plan) not in _BUILDERS:
            raise UnsupportedError(f"the embedded executor cannot run {type(plan).__name__}")
        operator = _BUILDERS[type(plan)](node)
        if isinstance(plan, Stateful) and plan.row_by_row:
            operator = RowByRowOperator(operator)
        return ForwardWatermarksOperator(operator) if node.watermarks_only else operator

    def _beside(self, join: LookupJoin) -> MappedDimension | AskedDimension | None:
        """Returns the table of a look-up; None where it is an input."""
        match join.right:
            case MappedScan():
                assert self._dimensions is not None, "no versions without a place for them"
                return MappedDimension(join, VersionFiles(self._dimensions))
            case AskedScan() as scan:
                assert self._asker is not None, "nobody can ask a table here"
                return AskedDimension(join, self._asker(scan))
        return None

    def _compile(self, plan: RulesPlan, previous: Operator | None) -> CompiledRules:
        compiled = previous.compiled if isinstance(previous, RulesOperator) else None
        return compile_rules(plan, RuleSet.empty(self._options), compiled)


def _scan(plan: Scan, node: PhysicalNode) -> Operator:
    names = set(node.columns)
    columns = tuple(c for c in plan.table.physical if c.name in names)
    metadata = tuple(m for m in value_metadata(plan.table) if m.column.name in names)
    with naming(plan.table):
        decoder = decoder_for(plan.table, columns, metadata)
    return ScanOperator(plan.table, node.columns, decoder)


def _union(plan: Union, node: PhysicalNode) -> Operator:
    return UnionOperator(plan.schema, len(plan.inputs), _aligned(plan))


def _interval_join(plan: IntervalJoin, node: PhysicalNode) -> Operator:
    return IntervalJoinOperator(plan, aligned=not plan.proctime and _aligned(plan))


def _aligned(plan: LogicalPlan) -> bool:
    """True if all inputs come from one source, batch for batch."""
    return len({time_origin(i) for i in plan.inputs}) == 1


def _over(plan: Over, node: PhysicalNode) -> Operator:
    if plan.at_end:
        return OverAtEndOperator(plan)
    return OverOperator(plan) if plan.in_time else OverSortedOperator(plan)


def _rank(plan: Rank, node: PhysicalNode) -> Operator:
    if plan.waits_for_time:
        return FirstRowOperator(plan)
    return UpdatingRankOperator(plan) if plan.row_key else RankOperator(plan)


def _upsert_materialize(plan: UpsertMaterialize, node: PhysicalNode) -> Operator:
    if plan.conflict == "DEDUPLICATE":
        return UpsertMaterializeOperator(plan)
    return ResolveConflictsOperator(plan)


Build: TypeAlias = Callable[[PhysicalNode], Operator]


def _entry(
    kind: type[P], make: Callable[[P, PhysicalNode], Operator]
) -> tuple[type[LogicalPlan], Build]:
    def build(node: PhysicalNode) -> Operator:
        assert isinstance(node.plan, kind)
        return make(node.plan, node)

    return kind, build


_BUILDERS: Mapping[type[LogicalPlan], Build] = dict(
    (
        _entry(Scan, _scan),
        _entry(MappedScan, lambda plan, node: VersionScanOperator()),
        _entry(AskedScan, lambda plan, node: VersionScanOperator()),
        _entry(Values, lambda plan, node: ValuesOperator(plan)),
        _entry(AssignWatermark, lambda plan, node: WatermarkOperator(plan, evaluate)),
        _entry(LateRows, lambda plan, node: LateRowsOperator(plan, node.columns)),
        _entry(Project, lambda plan, node: ProjectOperator(plan, node.columns)),
        _entry(TableFunction, lambda plan, node: TableFunctionOperator(plan, node.columns)),
        _entry(Expand, lambda plan, node: ExpandOperator(plan, node.columns)),
        _entry(Union, _union),
        _entry(SetOperation, lambda plan, node: SetOperationOperator(plan)),
        _entry(ShuffleOut, lambda plan, node: ShuffleOutOperator(plan, encode_batch)),
        _entry(ShuffleScan, lambda plan, node: ShuffleScanOperator(plan, decode_batch)),
        _entry(ShuffleIn, lambda plan, node: ShuffleInOperator(plan)),
        _entry(LocalAggregate, lambda plan, node: LocalAggregateOperator(plan)),
        _entry(GlobalAggregate, lambda plan, node: GlobalAggregateOperator(plan)),
        _entry(GroupAggregate, lambda plan, node: GroupAggregateOperator(plan)),
        _entry(WindowAssign, lambda plan, node: window_operator(plan)),
        _entry(SessionAssign, lambda plan, node: window_operator(plan)),
        _entry(EmittingAggregate, lambda plan, node: window_operator(plan)),
        _entry(WindowAggregate, lambda plan, node: window_operator(plan)),
        _entry(LocalWindowAggregate, lambda plan, node: window_operator(plan)),
        _entry(GlobalWindowAggregate, lambda plan, node: window_operator(plan)),
        _entry(WindowRank, lambda plan, node: window_operator(plan)),
        _entry(WindowJoin, lambda plan, node: window_operator(plan)),
        _entry(Rank, _rank),
        _entry(IntervalJoin, _interval_join),
        _entry(TemporalJoin, lambda plan, node: TemporalJoinOperator(plan)),
        _entry(Join, lambda plan, node: JoinOperator(plan)),
        _entry(AlertPeriods, lambda plan, node: AlertPeriodsOperator(plan)),
        _entry(HoldBack, lambda plan, node: HoldBackOperator(plan)),
        _entry(Constrain, lambda plan, node: ConstraintEnforcerOperator(plan)),
        _entry(Normalize, lambda plan, node: NormalizeOperator(plan)),
        _entry(UpsertMaterialize, _upsert_materialize),
        _entry(DropUpdateBefore, lambda plan, node: DropUpdateBeforeOperator(plan)),
        _entry(ToChangelog, lambda plan, node: ToChangelogOperator(plan)),
        _entry(FromChangelog, lambda plan, node: FromChangelogOperator(plan)),
        _entry(MatchRecognize, lambda plan, node: MatchOperator(plan)),
        _entry(Over, _over),
        _entry(NewTerm, lambda plan, node: NewTermOperator(plan)),
        _entry(ProcessFunction, lambda plan, node: ProcessFunctionOperator(plan)),
        _entry(Materialize, lambda plan, node: MaterializeOperator(plan)),
        _entry(TemporalSort, lambda plan, node: TemporalSortOperator(plan)),
    )
)
