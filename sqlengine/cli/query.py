"""`sql query`: ad-hoc statements on a running server."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress

import click

from parser.errors import SqlError
from sqlengine.cli.descriptions import moment
from sqlengine.cli.options import connection_options, rows_option
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.tables import draw_table, number
from sqlengine.cli.texts import read_text
from sqlengine.cli.values import DURATION
from sqlengine.cli.waiting import connect
from sqlengine.client import Client, Json, Refused, quote
from sqlengine.jobs.error_texts import rendered
from sqlengine.session.printers import PRINTERS, ResultRow, RowPrinter
from sqlengine.system.words import count

QUERIES = "/api/v1/queries"
POLL_S = 0.1


@click.command(short_help="Ask the server: SELECT, SHOW, DESCRIBE, EXPLAIN.")
@click.argument("statement", required=False)
@click.option("--follow", is_flag=True, help="Go on with rows that come later, until Ctrl-C.")
@click.option("--timeout", type=DURATION, help="End the query after this time, such as 30s.")
@click.option("--list", "listed", is_flag=True, help="Show the queries that run.")
@rows_option("'json' is an object a row.")
@connection_options
@click.pass_context
def query(
    ctx: click.Context,
    statement: str | None,
    follow: bool,
    timeout: int | None,
    listed: bool,
    output: str,
    server: str | None,
    token_file: str | None,
) -> None:
    """Run a statement on the server: SELECT, SHOW, DESCRIBE or EXPLAIN over the tables that jobs
    define; '-' reads it from standard input.

    A query reads topics from their beginning to their present end. It runs beside the jobs and ends
    with this command; nothing is kept of it. SET and CREATE TEMPORARY may precede it, separated by
    semicolons."""
    client = connect(server, token_file)
    if listed:
        _list(client)
    elif statement is None:
        raise click.UsageError('give a statement: sql query "SHOW TABLES"')
    else:
        text = read_text("-") if statement == "-" else statement
        parameters: Json = {"follow": "true" if follow else None}
        parameters |= {"timeout": None if timeout is None else timeout / 1000}
        ctx.exit(_run(client, text, parameters, PRINTERS[output](None), follow=follow))


def _run(client: Client, text: str, query: Json, printer: RowPrinter, *, follow: bool) -> int:
    try:
        with closing(fetch(client, text, query)) as pages:
            print_result(pages, printer)
    except Refused as error:
        click.echo(rendered(error, text), err=True)
        return 1
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 0


def fetch(client: Client, sql: str, query: Json) -> Generator[Json]:
    """Yields the pages of a statement's result as they come. Who stops to iterate ends the
    statement. Raises Refused with the statement's error, behind the pages before it."""
    page = client.post(QUERIES, sql.encode(), **query)
    place = f"{QUERIES}/{quote(str(page['query']))}"
    try:
        while True:
            yield page
            if page["next"] is None:
                return
            began, number = time.monotonic(), page["page"]
            page = client.get(place, page=page["next"])
            if page["page"] == number and time.monotonic() - began < POLL_S:
                time.sleep(POLL_S)  # the server had no time to wait for rows
    finally:
        if page["next"] is not None and page["state"] != "failed":
            _end(client, place)


def _end(client: Client, place: str) -> None:
    with suppress(SqlError):  # it has ended, or the server has
        client.delete(place)


def print_result(pages: Iterator[Json], printer: RowPrinter) -> None:
    """Prints the rows of a result as they come, and says what was set aside."""
    began, page = False, Json()
    try:
        for page in pages:
            columns = page["columns"]
            if not began and isinstance(columns, list):
                printer.begin(
                    [(name, kind) for name, kind in columns], changes=page["changes"] is True
                )
                began = True
            rows = page["rows"]
            assert isinstance(rows, list)
            found: list[ResultRow] = [(op, values) for op, values in rows]
            if found:
                printer.rows(found)
    finally:
        if began:
            printer.end()
    warnings = page.get("warnings")
    for warning in warnings if isinstance(warnings, list) else []:
        click.echo(f"warning: {warning}", err=True)
    if page["message"]:
        click.echo(page["message"], err=True)
    if page["set_aside"]:
        number = count(int(str(page["set_aside"])), "row")
        click.echo(f"{number} in error set aside; the first: {page['first_error']}", err=True)


def _list(client: Client) -> None:
    items = items_of(client.get(QUERIES), "queries")
    rows = [
        (
            i["query"],
            i["client"],
            moment(i["started_ms"]),
            number(i["rows_read"]),
            _short(str(i["sql"])),
        )
        for i in items
    ]
    if rows:
        draw_table(("query", "client", "started", "rows read", "statement"), rows)
    click.echo(
        f"{count(len(items), 'query')} running"
        if len(items) == 1
        else f"{len(items)} queries running",
        err=True,
    )


def _short(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= 80 else f"{line[:79]}…"
