"""The logical plan: frozen dataclasses, one per relational operation, each of which knows its
schema.

`digest` is the *sharing identity* of a node: a hash of operation, parameters and inputs. Two jobs'
nodes with one digest are one node of the graph. What is non-deterministic never has the digest of
anything else (`salt`)."""

from __future__ import annotations

from planner.logical.aggregates import GroupAggregate
from planner.logical.alert_periods import AlertPeriods
from planner.logical.changelogs import (
    DropUpdateBefore,
    FromChangelog,
    Normalize,
    ToChangelog,
    UpsertMaterialize,
)
from planner.logical.constraints import Constrain
from planner.logical.endpoints import (
    AskedScan,
    AssignWatermark,
    LookedUpScan,
    MappedScan,
    Scan,
    Sink,
    Values,
)
from planner.logical.expand import Expand
from planner.logical.held_back import HoldBack
from planner.logical.joins import BinaryJoin, Equality, IntervalJoin, Join, JoinKind
from planner.logical.late_rows import LATE_COLUMNS, LateRows
from planner.logical.new_terms import NewTerm
from planner.logical.node import LateTarget, LogicalPlan, Names, Stateful, renamed_keys
from planner.logical.over import ALERT_FUNCTIONS, Frame, Over, OverCall
from planner.logical.patterns import MatchRecognize, PatternItem, PatternValue, Skip
from planner.logical.process_functions import ProcessFunction, ProcessTable
from planner.logical.ranks import Materialize, Rank, SortKey, TemporalSort
from planner.logical.sets import SetOperation
from planner.logical.shuffle import LOCAL, REMOTE, ShuffleIn, ShuffleOut, ShuffleScan, shuffle_table
from planner.logical.stateless import Filter, Project, TableFunction, Union
from planner.logical.temporal_joins import LookupJoin, TemporalJoin
from planner.logical.two_phases import (
    ROWS,
    GlobalAggregate,
    GlobalWindowAggregate,
    LocalAggregate,
    LocalWindowAggregate,
)
from planner.logical.window_kinds import Cumulate, Hop, Session, Tumble
from planner.logical.window_properties import WindowBound, WindowProperties
from planner.logical.window_rows import WindowJoin, WindowRank
from planner.logical.window_specs import AlignedWindow, Window
from planner.logical.windows import (
    WINDOW_COLUMNS,
    AggregateCall,
    EmittingAggregate,
    SessionAssign,
    WindowAggregate,
    WindowAssign,
    window_columns,
    windows_below,
)

__all__ = [
    "ALERT_FUNCTIONS",
    "LATE_COLUMNS",
    "LOCAL",
    "REMOTE",
    "ROWS",
    "WINDOW_COLUMNS",
    "AggregateCall",
    "AlertPeriods",
    "AlignedWindow",
    "AskedScan",
    "AssignWatermark",
    "BinaryJoin",
    "Constrain",
    "Cumulate",
    "DropUpdateBefore",
    "EmittingAggregate",
    "Equality",
    "Expand",
    "Filter",
    "Frame",
    "FromChangelog",
    "GlobalAggregate",
    "GlobalWindowAggregate",
    "GroupAggregate",
    "HoldBack",
    "Hop",
    "IntervalJoin",
    "Join",
    "JoinKind",
    "LateRows",
    "LateTarget",
    "LocalAggregate",
    "LocalWindowAggregate",
    "LogicalPlan",
    "LookedUpScan",
    "LookupJoin",
    "MappedScan",
    "MatchRecognize",
    "Materialize",
    "Names",
    "NewTerm",
    "Normalize",
    "Over",
    "OverCall",
    "PatternItem",
    "PatternValue",
    "ProcessFunction",
    "ProcessTable",
    "Project",
    "Rank",
    "Scan",
    "Session",
    "SessionAssign",
    "SetOperation",
    "ShuffleIn",
    "ShuffleOut",
    "ShuffleScan",
    "Sink",
    "Skip",
    "SortKey",
    "Stateful",
    "TableFunction",
    "TemporalJoin",
    "TemporalSort",
    "ToChangelog",
    "Tumble",
    "Union",
    "UpsertMaterialize",
    "Values",
    "Window",
    "WindowAggregate",
    "WindowAssign",
    "WindowBound",
    "WindowJoin",
    "WindowProperties",
    "WindowRank",
    "renamed_keys",
    "shuffle_table",
    "time_origin",
    "window_columns",
    "windows_below",
]


def time_origin(plan: LogicalPlan) -> str:
    """The digest of the node that the rows have their watermark from: a table's, a window's, or a
    union's own."""
    while plan.forwards_row_time:
        (plan,) = plan.inputs
    return plan.digest
