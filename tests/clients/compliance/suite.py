"""The parts of SQLAlchemy's suite that are run. There is no DELETE, by which it empties its tables:
those that are only read are filled once, the others made anew for each test.

Left out are the parts about what Flink SQL has not: UPDATE and DELETE, RETURNING, sequences and
identity columns, defaults, foreign keys, unique keys, indexes and checks, temporary tables with rows,
schemas that are created, collations, JSON and enumerations as types."""

from __future__ import annotations

from sqlalchemy.testing import fixtures, suite

_READ = """
CTETest CompoundSelectTest DifficultParametersTest DistinctOnTest EscapingTest ExceptionTest ExistsTest
ExpandingBoundInTest FetchLimitOffsetTest HasTableTest IsOrIsNotDistinctFromTest JoinTest
LikeFunctionsTest OrderByLabelTest PostCompileParamsTest RowFetchTest ValuesExpressionTest
WindowFunctionTest
""".split()
_WRITTEN = """
BinaryTest BooleanTest DateTest DateTimeTest DateTimeMicrosecondsTest InsertBehaviorTest IntegerTest
LongNameBlowoutTest NumericTest PercentSchemaNamesTest ServerSideCursorsTest StringTest TableDDLTest
TextTest TimestampMicrosecondsTest UnicodeTextTest UnicodeVarcharTest
""".split()

for _name in (*_READ, *_WRITTEN):
    _part = getattr(suite, _name)
    if issubclass(_part, fixtures.TablesTest):
        _part.run_deletes = None
        if _name in _READ:
            _part.run_inserts = "once"
        else:
            _part.run_define_tables = _part.run_create_tables = _part.run_inserts = "each"
    globals()[_name] = _part
