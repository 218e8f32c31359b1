"""The dialect: connections by URL, and what the catalog has.

sqlengine://127.0.0.1:8083                        a server
sqlengine://:TOKEN@host:8083/my_db?tls=true&ca_file=ca.pem
sqlengine://                                      an engine in this process"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final, TypeVar, cast

from sqlalchemy import exc, pool, schema
from sqlalchemy.engine import default, reflection

import sqlengine
from parser import parse
from parser.definitions import CreateTable, CreateView
from sqlengine import dbapi
from sqlengine.broker.errors import Unreachable
from sqlengine.sqlalchemy.compiling import Definitions, Preparer, Statements
from sqlengine.sqlalchemy.shown import column, first, names, path, place, primary_key
from sqlengine.sqlalchemy.types import WRITTEN, TypeCompiler

_GONE: Final = re.compile(r"session '.*' does not exist")
_TLS: Final = ("ca_file", "client_cert", "client_key")


F = TypeVar("F", bound=Callable[..., object])


def _cached(ask: F) -> F:
    """Lets an inspector keep what it has asked. SQLAlchemy 1.4 writes the signature anew, which it
    cannot with annotations, and has options of tables among its keys, which must be hashable."""
    ask.__annotations__ = {}
    kept = reflection.cache(ask)

    @wraps(ask)
    def asked(dialect: object, connection: object, *names: object, **options: object) -> object:
        options.pop("sqlengine_with", None)
        return kept(dialect, connection, *names, **options)

    return cast("F", asked)


class Context(default.DefaultExecutionContext):
    """An execution: all cursors give rows as they come; with the option `follow` they go on with
    rows that come later."""

    def create_default_cursor(self) -> Any:
        follow = bool(self.execution_options.get("follow"))
        return self._dbapi_connection.cursor(follow=follow)

    create_server_side_cursor = create_default_cursor


class SqlengineDialect(default.DefaultDialect):
    """Flink SQL over a server's catalog: schemas are databases."""

    name = "sqlengine"
    driver = "dbapi"
    statement_compiler = Statements
    ddl_compiler = Definitions
    type_compiler = TypeCompiler
    colspecs = WRITTEN
    preparer = Preparer
    execution_ctx_cls = Context
    default_paramstyle = "qmark"
    construct_arguments = [(schema.Table, {"with": None})]  # noqa: RUF012
    supports_statement_cache = True
    supports_server_side_cursors = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_default_values = False
    supports_empty_insert = False
    cte_follows_insert = True
    supports_unicode_statements = True
    supports_unicode_binds = True
    returns_unicode_strings = True
    description_encoding = None
    postfetch_lastrowid = False
    max_identifier_length = 255

    # ---- connections -----------------------------------------------------------------------------

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Returns the driver."""
        return dbapi

    @classmethod
    def dbapi(cls) -> ModuleType:
        """Returns the driver, as SQLAlchemy 1.4 asks for it."""
        return dbapi

    @classmethod
    def get_pool_class(cls, url: Any) -> type[pool.Pool]:
        """An engine in this process is one for all threads."""
        return pool.QueuePool if url.host else pool.StaticPool

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        """Returns what `connect` takes of a URL. ArgumentError for a 'tls' that says neither."""
        query = dict(url.query)
        options: dict[str, Any] = {k: query.pop(k) for k in (*_TLS, "data", "token") if k in query}
        tls = query.pop("tls", "false")
        if tls not in ("true", "false"):
            raise exc.ArgumentError(f"'tls' is true or false, not {tls!r}")
        scheme = "https" if tls == "true" else "http"
        if url.host:
            host = f"[{url.host}]" if ":" in url.host else url.host
            options["url"] = f"{scheme}://{host}:{url.port or 8083}"
        if url.password:
            options["token"] = str(url.password)
        if url.database:
            options["database"] = url.database
        options["settings"] = query
        return [], options

    def connect(self, *arguments: Any, database: str | None = None, **options: Any) -> Any:
        """Returns a connection of the driver, in a database if that is named."""
        connection = dbapi.connect(*arguments, **options)
        if database is not None:
            try:
                connection.cursor().execute(f"USE {place(database)}")
            except dbapi.Error:
                connection.close()
                raise
        return connection

    def initialize(self, connection: Any) -> None:
        """Notes the server's version, and its database."""
        self.server_version_info = self._get_server_version_info(connection)
        self.default_schema_name = self._get_default_schema_name(connection)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(int(n) for n in sqlengine.__version__.split(".") if n.isdecimal())

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SHOW CURRENT DATABASE").scalar())

    def is_disconnect(self, error: Any, connection: Any, cursor: Any) -> bool:
        """True for an error after which the connection is of no use: its server or its session is
        gone."""
        cause = getattr(error, "__cause__", None)
        told = getattr(error, "message", "")
        return isinstance(cause, Unreachable) or _GONE.match(told) is not None

    # ---- transactions: there are none ------------------------------------------------------------

    def do_begin(self, dbapi_connection: Any) -> None: ...

    def do_commit(self, dbapi_connection: Any) -> None: ...

    def do_rollback(self, dbapi_connection: Any) -> None: ...

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[str]:
        return ["AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_connection: Any) -> str:
        return "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None: ...

    # ---- the catalog -----------------------------------------------------------------------------

    @_cached
    def get_schema_names(self, connection: Any, **options: Any) -> list[str]:
        return first(connection, "SHOW DATABASES")

    @_cached
    def get_table_names(
        self, connection: Any, schema: str | None = None, **options: Any
    ) -> list[str]:
        views = set(self.get_view_names(connection, schema, **options))
        return [n for n in names(connection, "TABLES", schema) if n not in views]

    @_cached
    def get_view_names(
        self, connection: Any, schema: str | None = None, **options: Any
    ) -> list[str]:
        return names(connection, "VIEWS", schema)

    @_cached
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> bool:
        """True for a table or a view; False also where there is no such schema."""
        try:
            return table_name in names(connection, "TABLES", schema)
        except exc.DBAPIError as error:
            if schema is not None and "does not exist" in getattr(error.orig, "message", ""):
                return False
            raise

    @_cached
    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **options: Any
    ) -> str:
        """Returns the view's query. NoSuchTableError for a table, too."""
        if view_name not in self.get_view_names(connection, schema, **options):
            raise exc.NoSuchTableError(view_name)
        shown = self._asked(connection, "SHOW CREATE VIEW", view_name, schema)[0][0]
        return str(shown).partition("\nAS ")[2].strip()

    @_cached
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        rows = self._asked(connection, "DESCRIBE", table_name, schema)
        return [column(row._mapping) for row in rows]

    @_cached
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> dict[str, Any]:
        rows = self._asked(connection, "DESCRIBE", table_name, schema)
        return {"constrained_columns": primary_key([r._mapping["key"] for r in rows]), "name": None}

    def get_foreign_keys(self, *arguments: Any, **options: Any) -> list[Any]:
        return []

    def get_indexes(self, *arguments: Any, **options: Any) -> list[Any]:
        return []

    def get_unique_constraints(self, *arguments: Any, **options: Any) -> list[Any]:
        return []

    def get_check_constraints(self, *arguments: Any, **options: Any) -> list[Any]:
        return []

    @_cached
    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> dict[str, Any]:
        return {"text": self._created(connection, table_name, schema, **options).comment}

    @_cached
    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Returns WITH: where the rows of a table are."""
        created = self._created(connection, table_name, schema, **options)
        return {"sqlengine_with": dict(created.options)} if isinstance(created, CreateTable) else {}

    def _created(
        self, connection: Any, name: str, schema: str | None, **options: Any
    ) -> CreateTable | CreateView:
        """Returns the statement that makes a table or view."""
        kind = "VIEW" if name in self.get_view_names(connection, schema, **options) else "TABLE"
        shown = self._asked(connection, f"SHOW CREATE {kind}", name, schema)[0][0]
        (created,) = parse(str(shown))
        assert isinstance(created, CreateTable | CreateView)
        return created

    def _asked(self, connection: Any, verb: str, name: str, schema: str | None) -> list[Any]:
        """Returns what is said of a table. NoSuchTableError where there is none."""
        try:
            found = connection.exec_driver_sql(f"{verb} {path(name, schema)}")
        except exc.DBAPIError as error:
            if "does not exist" in getattr(error.orig, "message", ""):
                raise exc.NoSuchTableError(name) from error
            raise
        return list(found)
