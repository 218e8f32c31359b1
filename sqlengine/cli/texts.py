"""The scripts that the command line is given: files, folders, standard input; which jobs they are,
and with what values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import click

from parser.errors import JobError, ServiceError, SqlError
from parser.script import substitute
from sqlengine.control.scripts import SUFFIX, job_name
from sqlengine.jobs.job import check_name
from sqlengine.sigma.files import TABLES

# Job name -> (file, text); no file for standard input.
Texts = dict[str, tuple[str | None, str]]
# Job name -> the reason for which its file cannot be read.
Unread = dict[str, SqlError]


def read_text(path: str) -> str:
    """A script's text, of standard input for '-'; ServiceError where it cannot be read or is no
    UTF-8."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be read", detail=error.strerror) from None
    except UnicodeDecodeError as error:
        detail = f"{error.reason} at byte {error.start}"
        raise ServiceError(
            f"'{path}' is not UTF-8", detail=detail, hint="a script is a text file"
        ) from None


def modules_in(folder: str | None) -> dict[str, str]:
    """The sources of the Python modules of a folder, by file name; none for None. ServiceError
    where there are none, or one cannot be read."""
    if folder is None:
        return {}
    found = {path.name: read_text(str(path)) for path in sorted(Path(folder).glob("*.py"))}
    if not found:
        raise ServiceError(f"there is no module (.py) in '{folder}'")
    return found


def is_file(rule: str) -> bool:
    """True if what a command is given for a rule names a file, and no job of a server."""
    return rule.endswith(SUFFIX) or Path(rule).is_file()


def definitions(pairs: Sequence[str]) -> dict[str, str]:
    """-D NAME=VALUE options as a dictionary."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{pair}' is not NAME=VALUE", param_hint="-D")
        result[name] = value
    return result


def job_texts(
    paths: Sequence[str], name: str | None, define: Sequence[str], unread: Unread | None = None
) -> Texts:
    """The jobs in files and in folders, under the names that they have where the topmost folder
    with a `_tables.sql` above them is submitted, or watched; so a rule has one name, however many
    of its folder are named. Files that cannot be read go to `unread`, as long as there is another
    one; else, and without `unread`, SqlError."""
    if name is not None and (len(paths) != 1 or Path(paths[0]).is_dir()):
        raise click.BadParameter("--name goes with one file", param_hint="--name")
    if "-" in paths and name is None:
        raise click.BadParameter("standard input needs --name", param_hint="--name")
    texts = _read(paths, name, define, unread)
    _check_any(texts, unread)
    return texts


def _read(
    paths: Sequence[str], name: str | None, define: Sequence[str], unread: Unread | None
) -> Texts:
    values = definitions(define)
    texts: Texts = {}
    for alone, path in _named(paths, name):
        job = alone if name is not None else _name_below_tables(alone, path)
        if job in texts:
            hint = (
                "put a '_tables.sql' into the folder above both"
                if job == Path(TABLES).stem
                else "submit them one by one, with --name"
            )
            raise JobError(_named_equally(texts[job][0] or "-", path, job), hint=hint)
        try:
            texts[job] = (None if path == "-" else path), _text(path, values)
        except SqlError as error:
            if unread is None:
                raise
            unread[job] = error
    return texts


def _check_any(texts: Texts, unread: Unread | None) -> None:
    if unread and not texts:
        raise next(iter(unread.values()))


def _named_equally(one: str, other: str, job: str) -> str:
    return f"'{one}' and '{other}' would both be the job '{job}'"


def rule_texts(
    paths: Sequence[str], define: Sequence[str], unread: Unread | None = None
) -> tuple[Texts, Texts]:
    """The rules in files and folders, by the names of their jobs, and those `_tables.sql` above
    them that are not among them. `unread`: see `job_texts`."""
    texts: Texts = {}
    for path in paths:
        for name, (file, text) in _read([path], None, define, unread).items():
            before = texts.setdefault(name, (file, text))[0]
            if Path(str(before)).absolute() != Path(str(file)).absolute():
                raise JobError(
                    _named_equally(str(before), str(file), name), hint="give them one by one"
                )
    _check_any(texts, unread)
    return texts, tables_above([str(file) for file, _ in texts.values()], define)


def tables_above(paths: Sequence[str], define: Sequence[str]) -> Texts:
    """The `_tables.sql` of the folder that each of these files is in, and of the folders above it
    up to the first that has none, by job name; none for folders, which hold theirs."""
    files = [Path(path) for path in paths if path != "-" and not Path(path).is_dir()]
    found = {table: None for file in files for table in _tables_of(file.absolute())}
    values = definitions(define)
    return {
        job_name(path, _root_of(path)): (str(path), _text(str(path), values))
        for path in sorted(found, key=lambda path: len(path.parts))
        if not any(path == file.absolute() for file in files)
    }


def _name_below_tables(name: str, file: str) -> str:
    above = list(_tables_of(Path(file).absolute()))
    return job_name(Path(file).absolute(), above[-1].parent) if above else name


def _tables_of(file: Path) -> Iterator[Path]:
    """Yields the nearest `_tables.sql` above a file, and those directly above that one."""
    above = iter(file.parents)
    nearest = next((p for p in above if (p / TABLES).is_file()), None)
    if nearest is None:
        return
    yield nearest / TABLES
    yield from (p / TABLES for p in takewhile(lambda p: (p / TABLES).is_file(), above))


def _root_of(tables: Path) -> Path:
    """The topmost folder from which `_tables.sql` follow each other down to this one."""
    *_, top = takewhile(lambda p: (p / TABLES).is_file(), tables.parents)
    return top


def _named(paths: Sequence[str], name: str | None) -> Iterator[tuple[str, str]]:
    for path in paths:
        if not Path(path).is_dir():
            yield check_name(Path(path).name.removesuffix(SUFFIX) if name is None else name), path
            continue
        scripts = [
            p
            for p in sorted(Path(path).rglob(f"*{SUFFIX}"))
            if p.is_file() and not _hidden(p, Path(path))
        ]
        if not scripts:
            raise ServiceError(f"there is no {SUFFIX} file in '{path}'")
        for file in scripts:
            yield job_name(file, Path(path)), str(file)


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _text(path: str, values: Mapping[str, str]) -> str:
    text = read_text(path)
    try:
        return substitute(text, values) if values else text
    except SqlError as error:
        raise error.in_file(None if path == "-" else path) from None
