"""Records with keys: which columns come from which, rows that end, and what is bad in either."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parser.errors import OptionError
from parser.types import BIGINT, INT, STRING, Schema
from planner.catalog import Table
from sqlengine.formats.base import Decoded
from sqlengine.formats.keyed.decoder import KeyedDecoder
from sqlengine.formats.keyed.fields import key_part
from sqlengine.formats.registry import decoder_for, decodes_keys, with_any_times

COLUMNS = Schema.of(k_id=BIGINT, k_at=STRING, n=INT)


def table(*key: str, **options: str) -> Table:
    given = {"key.format": "json", "value.format": "json"}
    given |= {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}
    return Table(("c", "d", "t"), COLUMNS, COLUMNS, given, primary_key=key)


def decoded(of: Table, *records: tuple[str | None, str | None], names: str = "") -> Decoded:
    wanted = [c for c in COLUMNS if not names or c.name in names.split()]
    decoder = decoder_for(of, wanted)
    assert isinstance(decoder, KeyedDecoder)
    keys = pa.array([k and k.encode() for k, _ in records], pa.binary())
    values = pa.array([(v or "").encode() for _, v in records], pa.binary())
    return decoder.decode_keyed(keys, values, np.array([v is None for _, v in records]))


def rows(found: Decoded) -> list[tuple[object, ...]]:
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True))


APART = {
    "key_fields": "k_id;k_at",
    "key_fields__prefix": "k_",
    "value_fields__include": "EXCEPT_KEY",
}


def test_columns_of_the_key_come_from_there() -> None:
    found = decoded(
        table(**APART),
        ('{"id": 1, "at": "x"}', '{"n": 5}'),
        (None, '{"n": 6}'),
        ('{"id": 3}', '{"n": 7}'),
    )
    assert rows(found) == [(1, "x", 5), (None, None, 6), (3, None, 7)]
    found = decoded(table(**APART), ('{"at": "x"}', "{}"), names="n k_at")
    assert rows(found) == [("x", None)]


def test_a_record_is_bad_where_its_key_or_its_value_is() -> None:
    found = decoded(
        table(**APART), ("{", '{"n": 1}'), ('{"id": 2}', "["), ('{"id": 3}', '{"n": 3}')
    )
    assert rows(found) == [(3, None, 3)]
    assert [(b.row, b.reason[:5] == "key: ") for b in found.bad] == [(0, True), (1, False)]
    assert found.rows is not None
    assert found.rows.tolist() == [2]


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_a_record_without_a_value_ends_the_row_of_its_key(include: str) -> None:
    whole = ', "k_id": 9' if include == "ALL" else ""
    found = decoded(
        table("k_id", value_fields__include=include),
        ('{"k_id": 9}', f'{{"n": 1, "k_at": "x"{whole}}}'),
        ('{"k_id": 9}', None),
        (None, None),
        ('{"k_id": 9}', f'{{"n": 2{whole}}}'),
    )
    assert rows(found) == [(9, "x", 1), (9, None, None), (9, None, 2)]
    assert found.rows is not None
    assert found.rows.tolist() == [0, 1, 3]
    assert [(b.row, b.reason) for b in found.bad] == [(2, "the record has no key")]


def test_values_that_have_all_columns_need_no_keys() -> None:
    assert not decodes_keys(table(key_fields="k_id"))
    assert not isinstance(decoder_for(table(key_fields="k_id")), KeyedDecoder)


def test_each_format_has_its_own_options() -> None:
    strict = table(**APART, value_json_fail__on__missing__field="true")
    found = decoded(strict, ('{"id": 1}', '{"x": 5}'), ('{"id": 2}', '{"n": 5}'))
    assert rows(found) == [(2, None, 5)]
    timed = with_any_times(strict).options
    assert {k for k in timed if k.endswith("standard")} == {
        "key.json.timestamp-format.standard",
        "value.json.timestamp-format.standard",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_fields": "id"}, "'key.fields' of table 't' names no column 'id'"),
        (
            {**APART, "key_fields": "n"},
            "'key.fields-prefix' of table 't' is no prefix of key column 'n'",
        ),
        ({**APART, "value_fields__include": "ALL"}, "needs values without the columns of the key"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        key_part(table(**options))
