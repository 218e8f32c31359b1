"""Web addresses: their parts, and text written for them."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING
from udf.arrays.arrays import bools, in_two_ways, map_text, per_distinct, valid
from udf.registry import KernelContext, Values, function
from udf.signatures import always_nullable, takes, text, text_or_null
from udf.text.bytes import bytes_of, texts_of

_STRING = pa.string()
# The protocols that Java knows by itself; it has no address of any other.
_PROTOCOLS = ("http", "https", "ftp", "file", "mailto", "jar")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):([^#]*)(?:#(.*))?", re.DOTALL)
_AUTHORITY = re.compile(r"(?:([^@]*)@)?(\[[^\]]*\]|[^:@\[\]]*)(?::([0-9]*))?")


@lru_cache(maxsize=8192)
def url_parts(url: str) -> dict[str, str | None] | None:
    """The parts of an address by the names that PARSE_URL has for them; None for what is no
    address."""
    match = _URL.fullmatch(url.strip("".join(map(chr, range(33)))))
    if match is None or match[1].lower() not in _PROTOCOLS:
        return None
    protocol, rest = match[1].lower(), match[2]
    parts: dict[str, str | None] = {
        "PROTOCOL": protocol,
        "REF": match[3],
        "HOST": "",
        "AUTHORITY": None,
    }
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
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    parts.update(USERINFO=match[1], HOST=match[2], AUTHORITY=authority)
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


@function(
    "PARSE_URL", signature=takes(text, text, text, optional=1, result=always_nullable(STRING))
)
def parse_url_kernel(ctx: KernelContext, url: Values, part: Values, *key: Values) -> Values:
    """PARSE_URL(url, part [, key]): a part of a URL, as it stands there: 'PROTOCOL', 'AUTHORITY',
    'USERINFO', 'HOST', 'FILE', 'PATH', 'QUERY' or 'REF'; with 'QUERY' and a key the value of the
    first parameter of this name. NULL where there is none, or the text is not a URL.

    >>> PARSE_URL('http://example.org/p?k=v#top', 'HOST')
    'example.org'
    >>> PARSE_URL('http://example.org/p?k=v#top', 'QUERY', 'k')
    'v'
    """
    pattern = _plain_part(url, part, *key)
    if pattern is None:
        return map_text(ctx.num_rows, parse_url, _STRING, url, part, *key)
    mask = bools(pc.match_substring_regex(url, _PLAIN_URL)) | ~valid(url, len(url))
    return in_two_ways(
        url,
        mask,
        lambda v: pc.struct_field(pc.extract_regex(v, pattern), "part"),
        lambda v: map_text(len(v), parse_url, _STRING, v, part, *key),
    )


# Addresses as most are; of these RE2 finds the parts.
_HEAD = r"\A(?:https?|ftp)://"
_NAME, _PATH, _QUERY = r"[^@/?#:\[\]\x00-\x20]+", r"[^?#\x00-\x20]*", r"[^#\x00-\x20]*"
_PLAIN_URL = rf"{_HEAD}{_NAME}(?::[0-9]*)?(?:/{_PATH})?(?:\?{_QUERY})?(?:#[^\x00-\x20]*)?\z"
_PARTS = {
    "HOST": rf"{_HEAD}(?P<part>{_NAME})",
    "AUTHORITY": rf"{_HEAD}(?P<part>{_NAME}(?::[0-9]*)?)",
    "PATH": rf"{_HEAD}{_NAME}(?::[0-9]*)?(?P<part>{_PATH})",
    "QUERY": rf"\A[^?#]*\?(?P<part>{_QUERY})",
    "REF": r"#(?P<part>.*)",
    "PROTOCOL": r"\A(?P<part>[a-z]+)",
}


def _plain_part(url: Values, part: Values, key: Values | None = None) -> str | None:
    """Returns the expression that extracts a constant part of plain addresses."""
    if not isinstance(url, pa.Array) or not isinstance(part, pa.Scalar):
        return None
    if key is None:
        return _PARTS.get(part.as_py())
    if (
        part.as_py() != "QUERY"
        or not isinstance(key, pa.Scalar)
        or not (key.as_py() or "").isalnum()
    ):
        return None
    return rf"\A[^?#]*\?(?:[^#]*?&)??{key.as_py()}=(?P<part>[^&#]*)"


@function("URL_ENCODE", signature=takes(text_or_null, result=always_nullable(STRING)))
def url_encode(ctx: KernelContext, value: Values) -> Values:
    """URL_ENCODE(text): the text as a form sends it (`application/x-www-form-urlencoded`, UTF-8): a
    space becomes '+'.

    >>> URL_ENCODE('a b&ü')
    'a+b%26%C3%BC'
    """
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, ctx.num_rows)
    offsets, data = bytes_of(value)
    sizes = _ENCODED_SIZES[data]
    places = np.zeros(len(data) + 1, np.int32)
    np.cumsum(sizes, out=places[1:])
    out = np.empty(places[-1], np.uint8)
    out[places[:-1]] = _ENCODED[data, 0]
    escaped = np.flatnonzero(sizes == 3)
    out[places[escaped] + 1] = _ENCODED[data[escaped], 1]
    out[places[escaped] + 2] = _ENCODED[data[escaped], 2]
    return texts_of(places[offsets], out, valid(value, len(value)), _STRING)


_SAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.*"
_WRITTEN = ["+" if c == 32 else chr(c) if chr(c) in _SAFE else f"%{c:02X}" for c in range(256)]
_ENCODED = np.array([list(w.ljust(3).encode("latin-1")) for w in _WRITTEN], np.uint8)
_ENCODED_SIZES = np.array([len(w) for w in _WRITTEN], np.int32)
_ESCAPES = re.compile(rb"(?:%[0-9a-fA-F]{2})+")
_BAD_ESCAPE = r"%(?:[^0-9a-fA-F]|[0-9a-fA-F][^0-9a-fA-F]|[0-9a-fA-F]?\z)"


def _decoded(value: str) -> str:
    data = value.replace("+", " ").encode("utf-8", "surrogatepass")
    return _ESCAPES.sub(lambda m: bytes.fromhex(m[0].replace(b"%", b"").decode()), data).decode(
        "utf-8", "replace"
    )


def _decoded_bytes(value: pa.Array) -> pa.Array | None:
    """Decodes all texts at once, if every '%' has its two digits and the result is UTF-8; else
    None."""
    offsets, data = bytes_of(value)
    at = np.flatnonzero(data == ord("%"))
    row_ends = offsets[np.searchsorted(offsets, at, side="right")] if len(at) else at
    if (at + 2 >= row_ends).any():
        return None
    high, low = _DIGITS[data[at + 1]], _DIGITS[data[at + 2]]
    if (high > 15).any() or (low > 15).any():
        return None
    out = np.where(data == ord("+"), np.uint8(32), data)
    out[at] = high * np.uint8(16) + low
    kept = np.ones(len(data) + 1, np.bool_)
    kept[at + 1] = kept[at + 2] = False
    places = np.zeros(len(data) + 1, np.int32)
    np.cumsum(kept[:-1], out=places[1:])
    decoded = texts_of(places[offsets], out[kept[:-1]], valid(value, len(value)), pa.binary())
    try:
        return decoded.cast(_STRING)
    except pa.ArrowInvalid:
        return None


_DIGITS = np.array(
    [int(chr(c), 16) if chr(c) in "0123456789abcdefABCDEF" else 16 for c in range(256)], np.uint8
)


@function("URL_DECODE", signature=takes(text_or_null, result=always_nullable(STRING)))
def url_decode(ctx: KernelContext, value: Values) -> Values:
    """URL_DECODE(text): the decoded text, the reverse of URL_ENCODE; NULL for a text with a '%'
    without two hexadecimal digits.

    >>> URL_DECODE('a+b%26')
    'a b&'
    """
    fast = _decoded_bytes(value) if isinstance(value, pa.Array) else None
    if fast is not None:
        return fast
    bad = pc.match_substring_regex(value, _BAD_ESCAPE)
    return pc.if_else(bad, pa.scalar(None, _STRING), per_distinct(_decoded, _STRING, value))
