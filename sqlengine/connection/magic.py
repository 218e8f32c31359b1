"""`%%sql` in notebooks, after `%load_ext sqlengine`.

%%sql                       a statement of the cell, over the Connection of the notebook
%%sql found <<              its result goes to the variable `found`
%%sql --follow              rows are shown while they come, until the cell is interrupted
%%sql --job errors          the cell becomes a job
%%sql -c other              over the connection in the variable `other`
"""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from parser.errors import ServiceError, SqlError
from sqlengine.connection.base import Connection
from sqlengine.connection.html import SHOWN, as_table
from sqlengine.connection.jobs import JobResult
from sqlengine.connection.results import Result
from sqlengine.jobs.error_texts import rendered

# Seconds between two pictures of a result that is followed.
_SHOWN_S: Final = 0.5


class Shell(Protocol):
    """The part of IPython that the magic needs."""

    user_ns: dict[str, object]

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: str = ..., magic_name: str | None = ...
    ) -> None: ...


@dataclass(frozen=True)
class _Line:
    """The words behind `%%sql`."""

    target: str | None = None
    connection: str | None = None
    job: str | None = None
    follow: bool = False
    rest: str = ""


def load(shell: Shell) -> None:
    """Makes `%sql` and `%%sql` known to a notebook."""

    def sql(line: str, cell: str | None = None) -> object:
        """Runs a statement; the text of `sqlengine.connection.magic` tells the options."""
        text = line if cell is None else cell
        try:
            asked = _read(line)
            text = asked.rest if cell is None else cell
            if cell is not None and asked.rest:
                raise ServiceError(
                    f"'{asked.rest}' behind %%sql is no option",
                    hint="the statement begins in the next line, or write %sql",
                )
            return _run(shell, asked, text)
        except SqlError as error:
            print(rendered(error, text), file=sys.stderr)
            return None

    shell.register_magic_function(sql, "line_cell", "sql")


def _read(line: str) -> _Line:
    target, marked, rest = line.partition("<<")
    found = {"target": target.strip()} if marked else {}
    rest = rest if marked else line
    follow = False
    while (word := rest.lstrip().partition(" ")[0]).startswith("-"):
        rest = rest.lstrip()[len(word) :]
        if word == "--follow":
            follow = True
            continue
        if word not in ("-c", "--connection", "--job"):
            raise ServiceError(
                f"%%sql has no option '{word}'", hint="there are --follow, --job, -c"
            )
        value = shlex.split(rest)[:1] or [""]
        rest = rest.lstrip()[len(value[0]) :]
        found["job" if word == "--job" else "connection"] = value[0]
    return _Line(**found, follow=follow, rest=rest.strip())


def _run(shell: Shell, asked: _Line, text: str) -> Result | JobResult | None:
    connection = _connection(shell, asked.connection)
    if asked.job is not None:
        return connection.submit(asked.job, text)
    result = connection.sql(text, follow=asked.follow)
    if asked.target:
        shell.user_ns[asked.target] = result
        return None
    if asked.follow:
        _show(result)
        return None
    return result


def _connection(shell: Shell, name: str | None) -> Connection:
    if name is not None:
        found = shell.user_ns.get(name)
        if isinstance(found, Connection):
            return found
        raise ServiceError(f"variable '{name}' holds no connection", hint=f"{name} = connect()")
    found_ones = [v for v in shell.user_ns.values() if isinstance(v, Connection)]
    open_ones = {id(v): v for v in found_ones if not v.closed}
    if len(open_ones) == 1:
        return next(iter(open_ones.values()))
    if open_ones:
        raise ServiceError("there are several connections", hint="name one: %%sql -c NAME")
    raise ServiceError(
        "there is no connection",
        hint="from sqlengine import connect; connection = connect()",
    )


def _show(result: Result) -> None:
    """Shows the last rows of a result while they come."""
    from IPython.display import HTML, DisplayHandle

    names: Sequence[str] = result.schema.names
    last: deque[Sequence[object]] = deque(maxlen=SHOWN)
    picture = DisplayHandle()
    picture.display(HTML(as_table(names, [])))
    shown = 0.0
    try:
        for batch in result.batches():
            last.extend(tuple(row.values()) for row in result.dicts_of(batch))
            if time.monotonic() - shown >= _SHOWN_S:
                shown = time.monotonic()
                picture.update(HTML(as_table(names, last, str(result.progress))))
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        result.close()
    picture.update(HTML(as_table(names, last, str(result.progress))))
