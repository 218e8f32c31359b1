"""CIDR_MATCH: networks by the length of their prefix, so that an address needs one look for each
length in use."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from rules.leaves import Network
from rules.matchers.base import HitList, Values

_LONGEST = 64  # of an IPv6 address with a zone
_V4 = 4


class CidrMatcher:
    """Leaves by number that are networks. A text that is no address (blanks around it do not count)
    is in none; an IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is also in the IPv4 networks
    that hold it."""

    def __init__(self, leaves: Iterable[tuple[int, Network]]) -> None:
        # (version, bits behind the prefix) -> prefix -> leaves
        self._networks: dict[tuple[int, int], dict[int, list[int]]] = {}
        for number, network in leaves:
            # The host bits are shifted out, so that prefixes of one length compare as integers.
            behind = network.max_prefixlen - network.prefixlen
            prefixes = self._networks.setdefault((network.version, behind), {})
            prefixes.setdefault(int(network.network_address) >> behind, []).append(number)

    def match(self, values: Values, hits: HitList) -> None:
        for value, text in enumerate(values.texts):
            numbers = _numbers(text)
            for (version, behind), prefixes in self._networks.items() if numbers else ():
                if version in numbers:
                    hits.add(value, prefixes.get(numbers[version] >> behind, ()))


def _numbers(text: str) -> dict[int, int]:
    """The address as a number, by version."""
    text = text.strip()
    # A cheap test first: most texts are no addresses, and the parser raises.
    if len(text) > _LONGEST or ("." not in text and ":" not in text):
        return {}
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return {}
    numbers: dict[int, int] = {address.version: int(address)}
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        numbers[_V4] = int(address.ipv4_mapped)
    return numbers
