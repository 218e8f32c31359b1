"""Statements that Flink has and this version has not, each with what to do instead."""

from __future__ import annotations

from parser.cursor import Cursor

_FOLDER = "jobs are durable: submit and stop them with `sql submit` and `sql stop`"
_PYTHON = "there is no JVM here: write functions in Python, CREATE FUNCTION … LANGUAGE PYTHON"
_ROWS = "streams only append: write a new row with INSERT INTO"
_REPLACE = "drop the object and create it again, or submit a new version of the job"

# First words -> hint. Longer beginnings stand before shorter ones.
_STATEMENTS: dict[tuple[str, ...], str] = {
    ("ALTER",): _REPLACE,
    ("UPDATE",): _ROWS,
    ("DELETE",): _ROWS,
    ("MERGE",): _ROWS,
    ("UPSERT",): "write INSERT INTO a table with a PRIMARY KEY",
    ("TRUNCATE",): "drop the table and create it again",
    ("ANALYZE",): "leave it out: plans do not depend on statistics",
    ("CALL",): "there are no procedures: use a function in SELECT",
    ("LOAD",): "there is one module of functions, and it is loaded",
    ("UNLOAD",): "there is one module of functions, and it is loaded",
    ("ADD", "JAR"): _PYTHON,
    ("REMOVE", "JAR"): _PYTHON,
    ("COMPILE",): "submit the statements themselves: " + _FOLDER,
    ("EXECUTE", "PLAN"): "submit the statements themselves: " + _FOLDER,
    ("STOP", "JOB"): _FOLDER,
    ("USE", "MODULES"): "there is one module of functions, and it is loaded",
    ("DESCRIBE", "CATALOG"): "use SHOW DATABASES and SHOW TABLES",
    ("DESC", "CATALOG"): "use SHOW DATABASES and SHOW TABLES",
    ("DESCRIBE", "JOB"): "use SHOW JOBS",
    ("DESC", "JOB"): "use SHOW JOBS",
    ("DESCRIBE", "MODEL"): "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON",
    ("DESC", "MODEL"): "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON",
    ("SHOW", "CREATE", "CATALOG"): "use SHOW CREATE TABLE or SHOW CREATE VIEW",
    ("SHOW", "CREATE", "MODEL"): "use SHOW CREATE TABLE or SHOW CREATE VIEW",
    ("SHOW", "CREATE", "MATERIALIZED"): "use SHOW CREATE TABLE or SHOW CREATE VIEW",
    ("SHOW", "FULL", "MODULES"): "use SHOW FUNCTIONS",
    ("SHOW", "MODULES"): "use SHOW FUNCTIONS",
    ("SHOW", "PROCEDURES"): "use SHOW FUNCTIONS",
    ("SHOW", "PARTITIONS"): "tables have no partitions here",
    ("SHOW", "MODELS"): "use SHOW FUNCTIONS",
    ("SHOW", "JARS"): _PYTHON,
    ("SHOW", "CONNECTIONS"): "use SHOW CREATE TABLE",
    ("SHOW", "MATERIALIZED"): "use SHOW TABLES",
}


def refuse(cursor: Cursor) -> None:
    """UnsupportedError where a statement begins that Flink has and this version has not."""
    for words, hint in _STATEMENTS.items():
        if cursor.at(*words):
            raise cursor.unsupported(" ".join(words), hint)
