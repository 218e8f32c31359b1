"""Lines of logs taken apart: GROK and KEYVALUE. Both are extensions: Flink has no such
functions."""

from __future__ import annotations

from functools import lru_cache

import regex

from parser.errors import PlanError, SqlError
from parser.types import STRING, DataType, map_of
from udf.arrays.arrays import RowError, row_errors
from udf.java.regex import translate
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import always_nullable, takes, text
from udf.text.searches import searched
from udf.vector import Vector

_MAP = map_of(STRING, STRING)
_REFERENCE = regex.compile(
    r"%\{(\w+)(?::([\w.\[\]@-]+))?(?::(?:int|float|long|double|string|boolean))?\}"
)
# The names that log tools share for the parts of a line.
PATTERNS = {
    "USERNAME": r"[a-zA-Z0-9._-]+",
    "USER": r"%{USERNAME}",
    "EMAILADDRESS": r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~.-]+@%{HOSTNAME}",
    "INT": r"[+-]?[0-9]+",
    "POSINT": r"[1-9][0-9]*",
    "NONNEGINT": r"[0-9]+",
    "BASE10NUM": r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)",
    "NUMBER": r"%{BASE10NUM}",
    "BASE16NUM": r"(?:0[xX])?[0-9a-fA-F]+",
    "BOOLEAN": r"(?i:true|false)",
    "WORD": r"\b\w+\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": r".*?",
    "GREEDYDATA": r".*",
    "QUOTEDSTRING": r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""",
    "QS": r"%{QUOTEDSTRING}",
    "UUID": r"[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}",
    "MAC": r"(?:[A-Fa-f0-9]{2}[:-]){5}[A-Fa-f0-9]{2}",
    "IPV4": r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})",
    "IPV6": r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:%{IPV4}|[0-9A-Fa-f]{0,4})",
    "IP": r"(?:%{IPV6}|%{IPV4})",
    "HOSTNAME": r"\b[0-9A-Za-z][0-9A-Za-z-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z-]{0,62})*\.?",
    "HOST": r"%{HOSTNAME}",
    "IPORHOST": r"(?:%{IP}|%{HOSTNAME})",
    "HOSTPORT": r"%{IPORHOST}:%{POSINT}",
    "UNIXPATH": r"(?:/[\w_%!$@:.,+~-]*)+",
    "WINPATH": r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+",
    "PATH": r"(?:%{UNIXPATH}|%{WINPATH})",
    "URIPROTO": r"[A-Za-z][A-Za-z0-9+.-]*",
    "URIHOST": r"%{IPORHOST}(?::%{POSINT})?",
    "URIPATH": r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+",
    "URIPARAM": r"\?[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*",
    "URIPATHPARAM": r"%{URIPATH}(?:%{URIPARAM})?",
    "URI": r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?",
    "MONTH": (
        r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?"
        r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
    ),
    "MONTHNUM": r"(?:0?[1-9]|1[0-2])",
    "MONTHDAY": r"(?:0[1-9]|[12][0-9]|3[01]|[1-9])",
    "DAY": (
        r"(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)"
    ),
    "YEAR": r"[0-9]{2}(?:[0-9]{2})?",
    "HOUR": r"(?:2[0123]|[01]?[0-9])",
    "MINUTE": r"[0-5][0-9]",
    "SECOND": r"(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?",
    "TIME": r"%{HOUR}:%{MINUTE}(?::%{SECOND})?",
    "ISO8601_TIMEZONE": r"(?:Z|[+-]%{HOUR}(?::?%{MINUTE}))",
    "TIMESTAMP_ISO8601": (
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?"
    ),
    "DATE": r"%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}",
    "HTTPDATE": r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}",
    "SYSLOGTIMESTAMP": r"%{MONTH} +%{MONTHDAY} %{TIME}",
    "PROG": r"[\x21-\x5a\x5c\x5e-\x7e]+",
    "SYSLOGPROG": r"%{PROG:program}(?:\[%{POSINT:pid}\])?",
    "SYSLOGHOST": r"%{IPORHOST}",
    "SYSLOGBASE": r"%{SYSLOGTIMESTAMP:timestamp} %{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    "LOGLEVEL": (
        r"(?i:alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe"
        r"|emerg(?:ency)?)"
    ),
    "HTTPDUSER": r"(?:%{EMAILADDRESS}|%{USER})",
    "COMMONAPACHELOG": (
        r"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "
        r'"(?:%{WORD:verb} %{NOTSPACE:request}(?:'
        r' HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" '
        r"%{INT:response} (?:%{INT:bytes}|-)"
    ),
    "COMBINEDAPACHELOG": r"%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}",
}
_DEEPEST = 16


_GROUP = regex.compile(
    r"\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?<([A-Za-z][A-Za-z0-9]*)>|(\?))?", regex.DOTALL
)


def _names_of_groups(pattern: str) -> dict[int, str]:
    """The names of the groups that have one, by their numbers."""
    names: dict[int, str] = {}
    number = 0
    for part in _GROUP.finditer(pattern):
        if part[0].startswith("(") and part[2] is None:
            number += 1
            if part[1] is not None:
                names[number] = part[1]
    return names


class Grok:
    """A pattern with its names: `names[i]` is what group grok<i + 1> of the regular expression is
    called."""

    def __init__(self, pattern: str) -> None:
        self.names: list[str] = []
        self.expanded = self._expanded(pattern, 0)
        self.groups = _names_of_groups(self.expanded)
        self.compiled = translate(self.expanded)

    @property
    def group_names(self) -> dict[str, str]:
        """The names of fields by those of the groups of `expanded`."""
        return {group: self._name(group) for group in self.groups.values()}

    def _name(self, group: str) -> str:
        return self.names[int(group[4:]) - 1] if _OURS.fullmatch(group) else group

    def _expanded(self, pattern: str, depth: int) -> str:
        if depth > _DEEPEST:
            raise SqlError("a GROK pattern is nested too deep")

        def replace(match: regex.Match[str]) -> str:
            known = PATTERNS.get(match[1])
            if known is None:
                raise SqlError(
                    f"unknown GROK pattern '{match[1]}'",
                    hint="known are " + ", ".join(sorted(PATTERNS)),
                )
            if match[2] is None:
                return f"(?:{self._expanded(known, depth + 1)})"
            self.names.append(match[2])
            group = f"grok{len(self.names)}"
            return f"(?<{group}>{self._expanded(known, depth + 1)})"

        return str(_REFERENCE.sub(replace, pattern))

    def read(self, value: str) -> list[tuple[str, str]] | None:
        exact = self.compiled.exact
        match = searched(self.compiled, value, lambda limit: exact.search(value, timeout=limit))
        if match is None:
            return None
        pairs: dict[str, str] = {}
        for number, group in self.groups.items():
            name = self._name(group)
            if match[number] is not None:
                pairs.setdefault(name, match[number])
        return list(pairs.items())


_OURS = regex.compile("grok[0-9]+")


@lru_cache(maxsize=512)
def compile_grok(pattern: str) -> Grok:
    """SqlError for a pattern that names an unknown one, or that is no regular expression."""
    return Grok(pattern)


def grok(value: str, pattern: str) -> list[tuple[str, str]] | None:
    """GROK for one value."""
    try:
        return compile_grok(pattern).read(value)
    except SqlError as error:
        raise RowError(str(error)) from None


def _grok_result(types: Types, literals: Literals) -> DataType:
    if isinstance(literals[1], str):
        try:
            compile_grok(literals[1])
        except SqlError as error:
            raise PlanError(error.message, detail=error.detail, hint=error.hint) from None
    return _MAP


@function("GROK", signature=takes(text, text, result=_grok_result))
def grok_kernel(ctx: KernelContext, value: Values, pattern: Values) -> Vector:
    """GROK(text, pattern): the fields that a pattern such as '%{IP:client} %{WORD:verb}' extracts
    from a line, as a map from name to text; NULL without a match. The rest of the pattern is a
    Java regular expression; known names are those of log tools (INT, NUMBER, WORD, IP, HOSTNAME,
    TIMESTAMP_ISO8601, HTTPDATE, LOGLEVEL, DATA, GREEDYDATA, COMMONAPACHELOG, …); named groups of
    its own are taken too. Error: an unknown name (when submitted, if the pattern is a literal).
    An extension.

    >>> GROK('10.0.0.1 GET /index.html', '%{IP:client} %{WORD:verb} %{NOTSPACE:path}')['path']
    '/index.html'
    """
    return Vector(*row_errors(ctx.num_rows, grok, _MAP.arrow, value, pattern))


def key_values(value: str, between: str = " ", inside: str = "=") -> list[tuple[str, str]]:
    """KEYVALUE for one value."""
    if not between or not inside:
        raise RowError("a delimiter of KEYVALUE is empty")
    pairs: dict[str, str] = {}
    at = 0
    while at < len(value):
        if value.startswith(between, at):
            at += len(between)
            continue
        at, key, text_ = _pair(value, at, between, inside)
        if key and text_ is not None:
            pairs[key] = text_
    return list(pairs.items())


def _pair(value: str, at: int, between: str, inside: str) -> tuple[int, str, str | None]:
    """The end of the pair that begins at `at`, its key, and its value (None: it has none)."""
    stop = value.find(between, at)
    stop = len(value) if stop < 0 else stop
    middle = value.find(inside, at, stop)
    if middle < 0:
        return stop, value[at:stop].strip(), None
    key, start = value[at:middle].strip(), middle + len(inside)
    quote = value[start : start + 1]
    if quote in ('"', "'") and quote:
        end = value.find(quote, start + 1)
        if end >= 0:
            return end + 1, key, value[start + 1 : end]
    return stop, key, value[start:stop]


@function("KEYVALUE", signature=takes(text, text, text, optional=2, result=always_nullable(_MAP)))
def keyvalue(ctx: KernelContext, value: Values, *delimiters: Values) -> Vector:
    """KEYVALUE(text [, between pairs [, inside a pair]]): the pairs of a line such as `user=ann
    action="log in"` as a map; the delimiters are ' ' and '=' by default, and are literal. A
    quoted value may contain delimiters; what is no pair is left out; of equal keys the last one
    counts. Error: an empty delimiter. An extension.

    >>> KEYVALUE('user=ann action="log in" x')['action']
    'log in'
    """
    return Vector(*row_errors(ctx.num_rows, key_values, _MAP.arrow, value, *delimiters))
