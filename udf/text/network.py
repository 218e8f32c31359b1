"""Network addresses."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, BOOLEAN, INT, STRING, DataType
from udf.arrays.arrays import map_text, per_distinct, row_by_row
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import (
    always_nullable,
    bigint,
    bigint_or_null,
    int_,
    nullable,
    takes,
    text,
    text_or_null,
)

_STRING = pa.string()
_DECIMAL = re.compile("[0-9]{1,10}")


@lru_cache(maxsize=16384)
def parse_network(network: str) -> IPv4Network | IPv6Network | None:
    """A network as `10.0.0.0/8` (host bits are ignored) or a single address; None for anything
    else."""
    try:
        return ip_network(network.strip(), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=16384)
def parse_address(address: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 or IPv6 address; None for anything else."""
    try:
        return ip_address(address.strip())
    except ValueError:
        return None


def cidr_contains(address: str, network: str) -> bool | None:
    """True if the address is in the network; None for an invalid network, False for an invalid
    address."""
    known = parse_network(network)
    if known is None:
        return None
    parsed = parse_address(address)
    if parsed is None:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped if mapped is not None and known.version == 4 else parsed) in known


def _cidr_result(types: Types, literals: Literals) -> DataType:
    for network in literals[1:]:
        if isinstance(network, str) and parse_network(network) is None:
            raise PlanError(
                f"'{network}' is not a network", hint="write an address and a prefix: '10.0.0.0/8'"
            )
    return BOOLEAN.with_nullable(nullable(types))


@function("CIDR_MATCH", signature=takes(text, text, result=_cidr_result))
def cidr_match(ctx: KernelContext, address: Values, network: Values) -> Values:
    """CIDR_MATCH(address, network): TRUE if an IPv4 or IPv6 address is in a network such as
    '10.0.0.0/8'; FALSE for an invalid address, NULL for an invalid network. An extension: Flink
    has no such function.

    >>> CIDR_MATCH('10.1.2.3', '10.0.0.0/8')
    TRUE
    """
    return map_text(ctx.num_rows, cidr_contains, pa.bool_(), address, network)


def address_to_int(address: str) -> int | None:
    """Parses as inet_aton: one to four decimal parts, the last of which fills the rest of the 32
    bits."""
    parts = address.split(".")
    if len(parts) > 4 or not all(_DECIMAL.fullmatch(p) for p in parts):
        return None
    *heads, last = map(int, parts)
    if any(h > 255 for h in heads) or last >= 256 ** (4 - len(heads)):
        return None
    return sum(h << 8 * (3 - i) for i, h in enumerate(heads)) + last


def int_to_address(number: int) -> str | None:
    """The dotted form of 32 bits."""
    return str(IPv4Address(number)) if 0 <= number < 2**32 else None


@function("INET_ATON", signature=takes(text_or_null, result=always_nullable(BIGINT)))
def inet_aton(ctx: KernelContext, value: Values) -> Values:
    """INET_ATON(text): the number of an IPv4 address; NULL for an invalid one. With fewer than four
    parts the last one fills the rest: '127.1' is 127.0.0.1.

    >>> INET_ATON('10.0.0.1')
    167772161
    """
    return per_distinct(address_to_int, pa.int64(), value)


@function("INET_NTOA", signature=takes(bigint_or_null, result=always_nullable(STRING)))
def inet_ntoa(ctx: KernelContext, value: Values) -> Values:
    """INET_NTOA(integer): the IPv4 address of a number; NULL outside of 0 to 4294967295.

    >>> INET_NTOA(167772161)
    '10.0.0.1'
    """
    return row_by_row(ctx.num_rows, int_to_address, _STRING, value)


def _strict_int(address: str) -> int | None:
    parsed = parse_address(address)
    return int(parsed) if isinstance(parsed, IPv4Address) else None


@function("IP_TO_INT", signature=takes(text, result=always_nullable(BIGINT)))
def ip_to_int(ctx: KernelContext, value: Values) -> Values:
    """IP_TO_INT(address): the number of an IPv4 address of four parts; NULL for anything else. An
    extension: INET_ATON also takes short forms.

    >>> IP_TO_INT('10.0.0.1')
    167772161
    """
    return per_distinct(_strict_int, pa.int64(), value)


@function("INT_TO_IP", signature=takes(bigint, result=always_nullable(STRING)))
def int_to_ip(ctx: KernelContext, value: Values) -> Values:
    """INT_TO_IP(integer): the IPv4 address of a number; NULL outside of 0 to 4294967295. An
    extension.

    >>> INT_TO_IP(167772161)
    '10.0.0.1'
    """
    return row_by_row(ctx.num_rows, int_to_address, _STRING, value)


def _version(address: str) -> int | None:
    parsed = parse_address(address)
    return None if parsed is None else parsed.version


@function("IP_VERSION", signature=takes(text, result=always_nullable(INT)))
def ip_version(ctx: KernelContext, value: Values) -> Values:
    """IP_VERSION(address): The version of an IP address, 4 or 6; NULL for an invalid address. An
    extension.

    >>> IP_VERSION('::1')
    6
    """
    return per_distinct(_version, pa.int32(), value)


def _is_private(address: str) -> bool:
    parsed = parse_address(address)
    return parsed is not None and any(parsed in n for n in _PRIVATE[parsed.version])


_PRIVATE: dict[int, tuple[IPv4Network | IPv6Network, ...]] = {
    4: tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))),
    6: (IPv6Network("fc00::/7"),),
}


@function("IS_PRIVATE_IP", signature=takes(text, result=BOOLEAN))
def is_private_ip(ctx: KernelContext, value: Values) -> Values:
    """IS_PRIVATE_IP(address): TRUE if an address is in a private network: 10.0.0.0/8,
    172.16.0.0/12, 192.168.0.0/16 or fc00::/7; FALSE for an invalid address. An extension.

    >>> IS_PRIVATE_IP('192.168.1.1')
    TRUE
    """
    return per_distinct(_is_private, pa.bool_(), value)


@function("IS_LOOPBACK_IP", signature=takes(text, result=BOOLEAN))
def is_loopback_ip(ctx: KernelContext, value: Values) -> Values:
    """IS_LOOPBACK_IP(address): TRUE if an address is in 127.0.0.0/8, or is ::1; FALSE for an
    invalid address. An extension.

    >>> IS_LOOPBACK_IP('127.0.0.1')
    TRUE
    """
    return per_distinct(
        lambda v: (parsed := parse_address(v)) is not None and parsed.is_loopback, pa.bool_(), value
    )


def _network_of(address: str, prefix: int) -> str | None:
    parsed = parse_address(address)
    if parsed is None or not 0 <= prefix <= parsed.max_prefixlen:
        return None
    return str(ip_network((parsed, prefix), strict=False))


@function("IP_NETWORK", signature=takes(text, int_, result=always_nullable(STRING)))
def ip_network_kernel(ctx: KernelContext, address: Values, prefix: Values) -> Values:
    """IP_NETWORK(address, prefix): the network that an address is in, by the length of its prefix
    in bits, to group by it; NULL for an invalid address or prefix. An extension.

    >>> IP_NETWORK('10.1.2.3', 16)
    '10.1.0.0/16'
    """
    return map_text(ctx.num_rows, _network_of, _STRING, address, prefix)
