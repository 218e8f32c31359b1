"""Web addresses: their parts, and text written for them."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING
from udf.arrays import map_text, per_distinct
from udf.registry import KernelContext, Values, function
from udf.signatures import always_nullable, takes, text

_STRING = pa.string()
# The protocols that Java knows by itself; it has no address of any other.
_PROTOCOLS = ("http", "https", "ftp", "file", "mailto", "jar")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):([^#]*)(?:#(.*))?", re.DOTALL)
_AUTHORITY = re.compile(r"(?:([^@]*)@)?(\[[^\]]*\]|[^:@\[\]]*)(?::([0-9]*))?")


@lru_cache(maxsize=8192)
def url_parts(url: str) -> dict[str, str | None] | None:
    """The parts of an address by the names that PARSE_URL has for them; None for what is no address."""
    found = _URL.fullmatch(url.strip("".join(map(chr, range(33)))))
    if found is None or found[1].lower() not in _PROTOCOLS:
        return None
    protocol, rest = found[1].lower(), found[2]
    parts: dict[str, str | None] = {"PROTOCOL": protocol, "REF": found[3], "HOST": "", "AUTHORITY": None}
    authority = None
    if rest.startswith("//") and protocol != "mailto":
        end = min((i for i in (rest.find("/", 2), rest.find("?", 2)) if i >= 0), default=len(rest))
        authority, rest = rest[2:end], rest[end:]
        if not _split_authority(authority, parts):
            return None
    path, question, query = rest.partition("?")
    return {**parts, "PATH": path, "QUERY": query if question else None, "FILE": rest}


def _split_authority(authority: str, parts: dict[str, str | None]) -> bool:
    """Adds user, host and authority; False for a port that is no number."""
    if authority.count("@") > 1:
        parts.update(HOST="", AUTHORITY=authority)
        return True
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return False
    parts.update(USERINFO=found[1], HOST=found[2], AUTHORITY=authority)
    return True


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """PARSE_URL for one value."""
    parts = url_parts(url)
    if parts is None:
        return None
    if key is None:
        return parts.get(part)
    query = parts["QUERY"]
    if part != "QUERY" or query is None:
        return None
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if equals and name == key:
            return value
    return None


@function("PARSE_URL", signature=takes(text, text, text, optional=1, result=always_nullable(STRING)))
def parse_url_kernel(ctx: KernelContext, url: Values, part: Values, *key: Values) -> Values:
    """PARSE_URL(url, part [, key]): a part of an address, as it stands there: 'PROTOCOL', 'AUTHORITY', 'USERINFO', 'HOST',
    'FILE', 'PATH', 'QUERY' or 'REF'; with 'QUERY' and a key the value of the first parameter of this name. NULL where there
    is none, or the text is no address.

    >>> PARSE_URL('http://example.org/p?k=v#top', 'HOST')
    'example.org'
    >>> PARSE_URL('http://example.org/p?k=v#top', 'QUERY', 'k')
    'v'
    """
    return map_text(ctx.num_rows, parse_url, _STRING, url, part, *key)


@function("URL_ENCODE", signature=takes(text, result=always_nullable(STRING)))
def url_encode(ctx: KernelContext, value: Values) -> Values:
    """URL_ENCODE(text): the text as a form sends it (`application/x-www-form-urlencoded`, UTF-8): a space becomes '+'.

    >>> URL_ENCODE('a b&ü')
    'a+b%26%C3%BC'
    """
    return per_distinct(lambda v: quote_plus(v, safe="*", errors="replace").replace("~", "%7E"), _STRING, value)


_ESCAPES = re.compile(rb"(?:%[0-9a-fA-F]{2})+")
_BAD_ESCAPE = r"%(?:[^0-9a-fA-F]|[0-9a-fA-F][^0-9a-fA-F]|[0-9a-fA-F]?\z)"


def _decoded(value: str) -> str:
    data = value.replace("+", " ").encode("utf-8", "surrogatepass")
    return _ESCAPES.sub(lambda m: bytes.fromhex(m[0].replace(b"%", b"").decode()), data).decode("utf-8", "replace")


@function("URL_DECODE", signature=takes(text, result=always_nullable(STRING)))
def url_decode(ctx: KernelContext, value: Values) -> Values:
    """URL_DECODE(text): the text that URL_ENCODE wrote; NULL for one with a '%' without two hexadecimal digits.

    >>> URL_DECODE('a+b%26')
    'a b&'
    """
    bad = pc.match_substring_regex(value, _BAD_ESCAPE)
    return pc.if_else(bad, pa.scalar(None, _STRING), per_distinct(_decoded, _STRING, value))
