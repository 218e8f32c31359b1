"""ALTER and DROP statements as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from parser.definitions import (
    ColumnDefinition,
    Constraint,
    Distribution,
    Kind,
    Name,
    Statement,
    WatermarkDefinition,
)
from parser.errors import Position


@dataclass(frozen=True)
class PartitionValue:
    """A `name [= literal]` of PARTITION (…); only ANALYZE may leave the literal out."""

    name: str
    value: exp.Expression | None = None


Partition = tuple[PartitionValue, ...]


@dataclass(frozen=True)
class Drop(Statement):
    """DROP [TEMPORARY [SYSTEM]] kind [IF EXISTS] name [CASCADE | RESTRICT]."""

    kind: Kind
    name: Name
    temporary: bool = False
    if_exists: bool = False
    system: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Rename:
    """RENAME TO name."""

    name: Name


@dataclass(frozen=True)
class RenameColumn:
    """RENAME column TO name."""

    column: Name
    name: Name


@dataclass(frozen=True)
class SetOptions:
    """SET ('key' = 'value', …); `places` says where each key stands."""

    options: Mapping[str, str]
    places: Mapping[str, Position] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class ResetOptions:
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SetComment:
    comment: str


@dataclass(frozen=True)
class ColumnChange:
    """A column of ADD or MODIFY [FIRST | AFTER column]."""

    column: ColumnDefinition
    after: Name | None = None
    first: bool = False


@dataclass(frozen=True)
class ChangeSchema:
    """ADD or MODIFY (`modify`) of columns, constraints and a watermark."""

    columns: tuple[ColumnChange, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    watermark: WatermarkDefinition | None = None
    modify: bool = False


@dataclass(frozen=True)
class ChangeDistribution:
    """ADD or MODIFY (`modify`) DISTRIBUTION."""

    distribution: Distribution
    modify: bool = False


@dataclass(frozen=True)
class NewPartition:
    """PARTITION (…) [WITH (…)]."""

    partition: Partition
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AddPartitions:
    partitions: tuple[NewPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropPartitions:
    partitions: tuple[Partition, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class DropColumns:
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT name, or DROP PRIMARY KEY (`name` None)."""

    name: str | None = None


@dataclass(frozen=True)
class DropWatermark:
    pass


@dataclass(frozen=True)
class DropDistribution:
    pass


@dataclass(frozen=True)
class SetQuery:
    """AS query."""

    query: exp.Expression


@dataclass(frozen=True)
class SetFunction:
    """AS 'class' [LANGUAGE …]."""

    class_name: str
    language: str | None = None


@dataclass(frozen=True)
class Suspend:
    pass


@dataclass(frozen=True)
class Resume:
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refresh:
    partition: Partition = ()


@dataclass(frozen=True)
class SetFreshness:
    freshness: exp.Expression


@dataclass(frozen=True)
class SetRefreshMode:
    """SET REFRESH_MODE = FULL | CONTINUOUS."""

    mode: str


Action = (
    Rename
    | RenameColumn
    | SetOptions
    | ResetOptions
    | SetComment
    | ChangeSchema
    | ChangeDistribution
    | AddPartitions
    | DropPartitions
    | DropColumns
    | DropConstraint
    | DropWatermark
    | DropDistribution
    | SetQuery
    | SetFunction
    | Suspend
    | Resume
    | Refresh
    | SetFreshness
    | SetRefreshMode
)


@dataclass(frozen=True)
class Alter(Statement):
    """ALTER [TEMPORARY [SYSTEM]] kind [IF EXISTS] name action."""

    kind: Kind
    name: Name
    action: Action
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
