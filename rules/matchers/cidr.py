"""CIDR_MATCH: networks by the length of their prefix, so that an address needs one look for each length in use."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from rules.leaves import Network
from rules.matchers.base import HitList, Values

_LONGEST = 64  # of an IPv6 address with a zone


class CidrMatcher:
    """Leaves by number that are networks. A text that is no address is in none; neither is an address of the other
    version."""

    def __init__(self, leaves: Iterable[tuple[int, Network]]) -> None:
        # (version, bits behind the prefix) -> prefix -> leaves
        self._networks: dict[tuple[int, int], dict[int, list[int]]] = {}
        for number, network in leaves:
            behind = network.max_prefixlen - network.prefixlen
            prefixes = self._networks.setdefault((network.version, behind), {})
            prefixes.setdefault(int(network.network_address) >> behind, []).append(number)

    def match(self, values: Values, hits: HitList) -> None:
        for value, text in enumerate(values.texts):
            address = _address(text)
            if address is None:
                continue
            bits = int(address)
            for (version, behind), prefixes in self._networks.items():
                if version == address.version:
                    hits.add(value, prefixes.get(bits >> behind, ()))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if len(text) > _LONGEST or ("." not in text and ":" not in text):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
