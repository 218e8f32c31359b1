"""What the dialect can do of what SQLAlchemy's suite asks for."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


def _closed(reason: str) -> property:
    """A requirement that is not met, and why."""
    return property(lambda self: exclusions.closed(), doc=reason)


def _open() -> property:
    """A requirement that SQLAlchemy does not expect of every database, and is met."""
    return property(lambda self: exclusions.open())


class Requirements(SuiteRequirements):  # type: ignore[misc]
    """By these the suite chooses its tests."""

    schemas = _open()
    temp_table_names = temporary_tables = temporary_views = _closed("they are not reflected")
    temp_table_reflection = has_temp_table = _closed("they are not reflected")
    autoincrement_insert = _closed("there are no generated keys")
    insert_from_select_with_defaults = _closed("there are no defaults")
    empty_inserts = _closed("an INSERT names its values")
    implicit_decimal_binds = _closed("a DECIMAL has the type of its digits")
    unicode_ddl = _closed("topics have names of ASCII")
    long_names: Any = _closed("names of keys and indexes are left out")
    foreign_key_constraint_reflection = _closed("there are no foreign keys")
    index_reflection = indexes_with_ascdesc = _closed("there are no indexes")
    unique_constraint_reflection = _closed("there are no unique keys")
    duplicate_key_raises_integrity_error = _closed("keys are NOT ENFORCED")
    sql_expression_limit_offset = _closed("LIMIT and OFFSET take numbers")
    time_microseconds = _closed("a TIME has milliseconds")
    json_type = _closed("JSON is text, asked by JSON_VALUE and JSON_QUERY")

    aggregate_order_by = _closed("LISTAGG takes the rows as they come")
    array_type = ctes = intersect = except_ = tuple_in = views = create_or_replace_view = _open()
    boolean_col_expressions = nullsordering = regexp_match = regexp_replace = _open()
    fetch_first = fetch_no_order_by = _open()
    window_functions = window_range = window_range_numeric = _open()
    comment_reflection = comment_reflection_full_unicode = reflect_table_options = _open()
    date_historic = datetime_historic = datetime_literals = _open()
    datetime_timezone = datetime_timezone_historic = timestamp_microseconds = _open()
    infinity_floats = precision_numerics_enotation_small = _open()
    precision_numerics_many_significant_digits = precision_numerics_retains_significant_digits = (
        _open()
    )
    create_table_as = _open()
    order_by_label_with_expression = table_ddl_if_exists = table_value_constructor = _open()
