"""Network addresses."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import pyarrow as pa

from parser.errors import PlanError
from parser.types import BOOLEAN, DataType
from udf.arrays import map_text
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import nullable, takes, text


@lru_cache(maxsize=16384)
def parse_network(network: str) -> IPv4Network | IPv6Network | None:
    """A network as `10.0.0.0/8` (host bits are ignored) or a single address; None for anything else."""
    try:
        return ip_network(network.strip(), strict=False)
    except ValueError:
        return None


def cidr_contains(address: str, network: str) -> bool | None:
    """Whether the address is in the network; None if the network is none, False if the address is none."""
    known = parse_network(network)
    if known is None:
        return None
    try:
        found = ip_address(address.strip())
    except ValueError:
        return False
    mapped = found.ipv4_mapped if found.version == 6 else None
    return (mapped if mapped is not None and known.version == 4 else found) in known


def _cidr_result(types: Types, literals: Literals) -> DataType:
    for network in literals[1:]:
        if isinstance(network, str) and parse_network(network) is None:
            raise PlanError(f"'{network}' is not a network", hint="write an address and a prefix: '10.0.0.0/8'")
    return BOOLEAN.with_nullable(nullable(types))


@function("CIDR_MATCH", signature=takes(text, text, result=_cidr_result))
def cidr_match(ctx: KernelContext, address: Values, network: Values) -> Values:
    """CIDR_MATCH(address, network): whether an IPv4 or IPv6 address is in a network such as '10.0.0.0/8'; FALSE for a
    text that is no address, NULL for one that is no network. (Flink has no such function.)"""
    return map_text(ctx.num_rows, cidr_contains, pa.bool_(), address, network)
