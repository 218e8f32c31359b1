"""What jobs share, and what they must not."""

from __future__ import annotations

from pathlib import Path

from tests.engine.by_hand import EVENTS, WINDOW, append, of_job, open_engine, rows, step


def test_a_replaced_job_writes_to_the_table_that_its_new_version_declares(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    job = """CREATE TEMPORARY TABLE mine (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{}', 'format' = 'json');
    INSERT INTO mine SELECT id FROM events"""
    engine.submit("job", job.format("old"))
    append(engine, 1)
    step(engine)
    engine.submit("job", job.format("new"))
    append(engine, 2)
    step(engine)
    assert rows(engine, "old") == [[1]]
    assert rows(engine, "new") == [[2]]
    engine.close()


def test_a_watermark_over_a_computed_column_moves(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("w", WINDOW.format(name="w"))
    append(engine, 100, 200, 1100)
    step(engine)
    assert of_job(engine, "w") == [2]
    engine.close()


def test_a_later_watermark_over_a_running_source_waits_for_all_shards(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, shards=2)
    engine.submit("tables", EVENTS)
    engine.submit(
        "plain",
        """
    CREATE TEMPORARY TABLE untimed (id BIGINT, ms BIGINT, host STRING)
    WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
    INSERT INTO outs SELECT 'plain', id FROM untimed""",
    )
    engine.submit("w", WINDOW.format(name="w"))
    append(engine, 100, 1100, shard=0)
    step(engine)
    append(engine, 200, 1200, shard=1)
    step(engine)
    assert of_job(engine, "w") == [2]
    engine.close()


def test_constant_rows_come_once_for_each_job_that_asks(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for name in ("a", "b"):
        engine.submit(name, "INSERT INTO outs VALUES ('x', 1)")
        step(engine)
    engine.submit("b", "INSERT INTO outs VALUES ('x', 1);  -- the same rows")
    step(engine)
    assert rows(engine) == [["x", 1], ["x", 1]]
    engine.close()


def test_a_later_job_over_a_file_sees_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit(
        "files",
        f"""CREATE TABLE files (id BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json')""",
    )
    for name in ("a", "b"):
        engine.submit(name, f"INSERT INTO outs SELECT '{name}', id FROM files")
        step(engine)
    assert of_job(engine, "a") == of_job(engine, "b") == [1, 2]
    engine.close()


def test_rows_are_counted_once_for_each_job_and_survive_changes(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for name in ("a", "b", "c"):
        engine.submit(name, "INSERT INTO outs SELECT 'all', id FROM events")
    engine.submit("rule", "INSERT INTO outs SELECT 'rule', id FROM events WHERE id > 0")
    append(engine, 1, 2)
    step(engine)
    engine.submit("other", "INSERT INTO outs SELECT 'other', id FROM events WHERE id > 1")
    assert engine.rows_by_job() == {"a": 2, "b": 2, "c": 2, "rule": 2}
    engine.close()


def test_random_values_differ_by_job_insert_and_column(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    job = """CREATE TEMPORARY TABLE mine (a STRING, b STRING, r DOUBLE) WITH ('connector' = 'topic', 'topic' = 'drawn', 'format' = 'json');
    INSERT INTO mine SELECT UUID(), UUID(), RAND() FROM events;
    INSERT INTO mine SELECT UUID(), UUID(), RAND() FROM events"""
    engine.submit("one", job)
    engine.submit("other", job)
    append(engine, 1, 2)
    step(engine)
    drawn = rows(engine, "drawn")
    assert len(drawn) == 8
    assert len({value for row in drawn for value in row}) == 24
    engine.close()
