"""The parts of SQLAlchemy's suite that are run. There is no DELETE, by which it empties its tables:
those that are only read are filled once, the others made anew for each test.

Left out are the parts about what Flink SQL has not: UPDATE and DELETE, RETURNING, sequences and
identity columns, defaults, foreign keys, unique keys, indexes and checks, temporary tables with rows,
schemas that are created, collations, JSON and enumerations as types; EXISTS among the columns of a
SELECT; and those that nobody has gone through yet."""

from __future__ import annotations

from sqlalchemy.testing import fixtures, suite

_READ = "CompoundSelectTest ExpandingBoundInTest HasTableTest".split()
_WRITTEN = "BooleanTest DateTest IntegerTest".split()

# It has a WHERE without a FROM, which Flink SQL has not.
del suite.IntegerTest.test_huge_int_auto_accommodation

for _name in (*_READ, *_WRITTEN):
    _part = getattr(suite, _name)
    if issubclass(_part, fixtures.TablesTest):
        _part.run_deletes = None
        if _name in _READ:
            _part.run_inserts = "once"
        else:
            _part.run_define_tables = _part.run_create_tables = _part.run_inserts = "each"
    globals()[_name] = _part
