"""Jobs whose texts make databases, derive tables from others, alter them and fill new ones: submit,
replace, restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parser.errors import JobError, SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.support import eventually

SHOP = """
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE base (id INT, v INT);
CREATE TABLE shop.orders WITH ('connector' = 'topic', 'topic' = 'orders', 'format' = 'json',
  'topic.auto-create' = 'true', 'scan.startup.mode' = 'earliest-offset') LIKE base;
ALTER TABLE shop.orders ADD c AS v + 1;
"""
SPLIT = """
USE shop;
CREATE TABLE big WITH ('connector' = 'topic', 'topic' = 'big', 'format' = 'json') AS
SELECT id, c FROM orders WHERE v > 5;
INSERT INTO big /*+ OPTIONS('topic' = 'small') */ SELECT id, c FROM orders WHERE v <= 5;
"""
FILL = "INSERT INTO shop.orders VALUES (1, 9), (2, 3), (3, 4);"


@contextmanager
def engine(data: Path) -> Iterator[Engine]:
    opened = Engine(Config(data=data))
    opened.start()
    try:
        yield opened
    finally:
        opened.close()


def test_jobs_live_on_with_what_they_define(tmp_path: Path) -> None:
    with engine(tmp_path) as first:
        assert [first.submit(n, t).status for n, t in (("shop", SHOP), ("split", SPLIT))] == [
            "added"
        ] * 2
        first.submit("fill", FILL)
        eventually(lambda: first.rows_of("split") == 3, lambda: str(first.rows_by_job()))
        assert first.job("split").uses == ("default_catalog.shop", "default_catalog.shop.orders")
        assert first.submit("split", SPLIT.replace("5", "6")).status == "replaced"
    with engine(tmp_path) as again:
        assert {j.name: (j.state.value, j.reason) for j in again.jobs()}["split"] == (
            "running",
            None,
        )
        again.submit("more", FILL)
        # Three of the first life, and three of this one.
        eventually(lambda: again.rows_of("split") == 6, lambda: str(again.rows_by_job()))
        assert again.submit("shop", SHOP).status == "unchanged"
        with pytest.raises(JobError, match="is used by split"):
            again.remove("shop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ALTER TABLE shop.orders ADD d INT;", "belongs to the job that defines it"),
        (
            "CREATE TABLE nowhere.t (a INT) WITH ('connector' = 'blackhole');",
            "database .* does not exist",
        ),
        ("USE nowhere;", "database .* does not exist"),
        ("CREATE DATABASE shop COMMENT 'another';", "exists already with another definition"),
        ("DROP DATABASE shop;", "has no place in a job"),
        ("INSERT OVERWRITE shop.orders SELECT 1, 2;", "only adds rows|is not supported"),
        ("INSERT INTO base SELECT 1, 2;", "has no connector"),
    ],
)
def test_what_jobs_cannot_do_to_others(text: str, message: str, tmp_path: Path) -> None:
    with engine(tmp_path) as held:
        held.submit("shop", SHOP)
        with pytest.raises(SqlError, match=message):
            held.submit("other", text)
