"""Reading rows from a host: answers page by page, and the records in them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

from parser.errors import ExecutionError
from sqlengine.connectors.http.client import Answer, HttpClient, NoAnswer, site
from sqlengine.connectors.retry_after import retry_after
from sqlengine.system.lanes import get_on
from sqlengine.system.untrusted.json_sizes import elements

_RETRIED: Final = frozenset((408, 425, 429, *range(500, 600)))
_MISSING: Final = frozenset((404, 410))
# What a host may answer to one request, and would not to another one.
_OF_REQUEST: Final = frozenset((400, 406, 409, 411, 413, 414, 415, 416, 422, 431, 500))
_ATTEMPTS: Final = 3
_LONGEST_S: Final = 5.0
# A link of the header Link, and its relations to what is answered (RFC 8288).
_LINK: Final = re.compile(r'<([^<>]*+)>((?:[^",]|"[^"]*+")*+)')
_RELATIONS: Final = re.compile(r';\s*+rel\s*+=\s*+(?:"([^"]*+)"|([^\s;",]++))', re.IGNORECASE)
_LINES: Final = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
# Rows of an answer: each costs memory, however few bytes it has.
_MOST_ROWS: Final = 2_000_000


class BadAnswer(ExecutionError):
    """A host answers what is none of a table's rows."""


class Refused(BadAnswer):
    """A host refuses whoever asks, whatever is asked for."""


class _TooMany(BadAnswer):
    """An answer has more rows, or members, than are taken at once."""


@dataclass(frozen=True)
class Asked:
    """The request of a table.

    `rows`: the JSON pointer to the rows of an answer; `cursor`: the one to the mark of the next
    page, which goes into the parameter `parameter`; `most_bytes` and `most_pages` of all answers
    together; with `rows_optional` an answer that has nothing at `rows` has no rows; with `may_miss`
    neither has that, nor 404 and 410."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    is_json: bool
    rows: str
    pagination: str
    cursor: str
    parameter: str
    most_bytes: int
    most_pages: int
    rows_optional: bool = False
    may_miss: bool = False


class Reader:
    """Asks a host for rows. Every method raises NoAnswer where the host is away, BadAnswer for what
    it should not answer, HostRefused where SQL may not connect."""

    def __init__(self, asked: Asked, client: HttpClient) -> None:
        self.asked = asked
        self._client = client

    def stamp(self) -> str | None:
        """Returns what tells two states of the rows apart; None where the host does not say, or
        they are several pages."""
        if self.asked.pagination != "none":
            return None
        headers = self._ask(self.asked.url, {}, 0).headers
        return headers.get("etag") or headers.get("last-modified")

    def pages(
        self, parameters: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[tuple[Answer, list[bytes]]]:
        """Yields the answers, and the records of each; the query has `parameters` besides its own.
        One that says that nothing has changed has none."""
        url, left = with_parameters(self.asked.url, parameters), self.asked.most_bytes
        for _ in range(self.asked.most_pages):
            answer = self._ask(url, headers, left)
            if answer.status == 304:
                yield answer, []
                return
            if not answer.complete:
                raise BadAnswer(
                    f"{site(url)} answers with too much",
                    detail=f"more than {self.asked.most_bytes} bytes",
                    hint="'response.max-bytes' allows more",
                )
            left -= len(answer.body)
            yield answer, self._records(answer)
            following = self._next(url, answer)
            if following is None:
                return
            url = following
            get_on()
        raise BadAnswer(
            f"{site(url)} has more than {self.asked.most_pages} pages",
            hint="'pagination.max-pages' allows more",
        )

    def _ask(self, url: str, headers: Mapping[str, str], most: int) -> Answer:
        """Returns an answer, after several attempts where the host is busy or away."""
        asked = self.asked
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            try:
                found = self._client.send(
                    asked.method, url, {**asked.headers, **headers}, asked.body, most
                )
            except NoAnswer:
                if last:
                    raise
                time.sleep(2.0**attempt / 2)
                continue
            if found.status not in _RETRIED or last:
                return self._sound(url, found)
            time.sleep(min(max(2.0**attempt / 2, retry_after(found.headers)), _LONGEST_S))
            get_on()
        raise AssertionError("unreachable")

    def _sound(self, url: str, answer: Answer) -> Answer:
        if 200 <= answer.status < 300 or answer.status == 304:
            return answer
        if self.asked.may_miss and answer.status in _MISSING:
            return replace(answer, body=b"")
        hint = "redirections are not followed: write the address as 'url'"
        raise self._kind(answer.status)(
            f"{site(url)} answers {answer.shown}",
            hint=hint if 300 <= answer.status < 400 else None,
        )

    def _kind(self, status: int) -> type[NoAnswer | BadAnswer]:
        if self.asked.may_miss and status in _OF_REQUEST:
            return BadAnswer
        return NoAnswer if status in _RETRIED else Refused

    def _records(self, answer: Answer) -> list[bytes]:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not self.asked.is_json or kind in _LINES:
            _require_few(answer.body.count(b"\n"))
            return [line.rstrip(b"\r") for line in answer.body.split(b"\n") if line.strip()]
        if not answer.body.strip():
            return []
        found = self._value(answer, self.asked.rows)
        if found is None:
            self._require_optional(answer)
        if found is None or found == b"null":
            return []
        if not found.startswith(b"["):
            return [found]
        _require_few_parts(found)
        return [bytes(raw) for raw in msgspec.json.decode(found, type=list[msgspec.Raw])]

    def _require_optional(self, answer: Answer) -> None:
        """Raises BadAnswer where an answer without rows may be an error, or a table's mistake."""
        if not (self.asked.rows_optional or self.asked.may_miss):
            raise BadAnswer(
                f"the answer of {site(self.asked.url)} has nothing at '{self.asked.rows}'",
                detail=f"it is {answer.shown}",
                hint="see 'response.rows'; with 'response.rows.optional' = 'true' it has no rows",
            )

    def _value(self, answer: Answer, pointer: str) -> bytes | None:
        try:
            return at_pointer(answer.body, pointer)
        except _TooMany:
            raise
        except BadAnswer as error:
            what = f"the answer of {site(self.asked.url)} is no JSON"
            raise BadAnswer(what, detail=error.detail) from None

    def _next(self, url: str, answer: Answer) -> str | None:
        """Returns the address of the next page; None behind the last one."""
        match self.asked.pagination:
            case "link":
                found = next_link(answer.headers.get("link", ""))
                following = None if found is None else urljoin(url, found)
                if following is not None and site(following) != site(self.asked.url):
                    # It would be told who asks.
                    raise BadAnswer(f"{site(url)} names a next page elsewhere: {site(following)}")
                return following
            case "cursor":
                mark = self._value(answer, self.asked.cursor)
                text = None if mark is None else text_of(mark)
                return None if not text else with_parameters(url, {self.asked.parameter: text})
        return None


def next_link(header: str) -> str | None:
    """Returns the address of the next page by the header Link; None where it names none.

    >>> next_link('</p?n=1>; rel=prev, </p?n=3>; title="a, b"; rel="last next"')
    '/p?n=3'
    """
    for link in _LINK.finditer(header):
        relations = _RELATIONS.search(link[2])
        if relations and "next" in (relations[1] or relations[2] or "").lower().split():
            return link[1]
    return None


def at_pointer(body: bytes, pointer: str) -> bytes | None:
    """Returns the value in JSON at a pointer (RFC 6901); None where there is none. BadAnswer where
    the body is no JSON, or has too many parts on the way.

    >>> at_pointer(b'{"a": {"b/c": [1, {"d": true}]}}', "/a/b~1c/1/d")
    b'true'
    """
    found = body.strip()
    try:
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            _require_few_parts(found)
            if found.startswith(b"{"):
                members = msgspec.json.decode(found, type=dict[str, msgspec.Raw])
                if name not in members:
                    return None
                found = bytes(members[name])
            elif found.startswith(b"[") and name.isascii() and name.isdigit():
                items = msgspec.json.decode(found, type=list[msgspec.Raw])
                if int(name) >= len(items):
                    return None
                found = bytes(items[int(name)])
            else:
                return None
        msgspec.json.decode(found, type=msgspec.Raw)  # looks at all of it, and makes nothing of it
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer("the answer is no JSON", detail=str(error)[:200]) from None
    return found


def _require_few_parts(text: bytes) -> None:
    """Raises `BadAnswer` for an array, or an object, of too many parts, before they are made."""
    if text.count(b",") >= _MOST_ROWS:
        _require_few(elements(text))


def _require_few(rows: int) -> None:
    if rows > _MOST_ROWS:
        raise _TooMany(
            f"an answer has {rows:,} rows, and {_MOST_ROWS:,} are taken at once",
            hint="ask for pages: see 'pagination'",
        )


def text_of(value: bytes) -> str | None:
    """Returns a value in JSON as a parameter has it; None for NULL, false and structures."""
    if value[:1] == b'"':
        return str(json.loads(value.decode(errors="replace")))
    return None if value in (b"null", b"false") or value[:1] in b"{[" else value.decode()


def pointer(text: str) -> str:
    """Parses the option of a JSON pointer. ValueError where it is none."""
    if text and not text.startswith("/"):
        raise ValueError("expected a JSON pointer such as /data/items, or an empty text")
    return text


def with_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """Returns an address whose query has these parameters, in the place of those of their names."""
    if not parameters:
        return url
    parts = urlsplit(url)
    kept = [p for p in parse_qsl(parts.query, keep_blank_values=True) if p[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*kept, *parameters.items()])))
