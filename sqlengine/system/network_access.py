"""The hosts to which tables may connect.

What is judged is the address that answers, not the name alone: a name may stand for another address
by the time that it is used."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from parser.errors import ExecutionError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Services that clouds have for their machines alone: they hand out credentials.
_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))


class HostRefused(ExecutionError):
    """SQL may not connect to a host, or to the address that it has."""


@dataclass(frozen=True)
class NetworkAccess:
    """The hosts to which SQL may connect.

    `hosts` are patterns of names (`*.example.com`), addresses and networks (`10.1.0.0/16`); None
    for all but those of the machine's own link, where clouds have their metadata. `command`: what
    takes --hosts, for hints."""

    hosts: tuple[str, ...] | None = None
    command: str = "sql serve"

    def check(self, host: str, address: str) -> None:
        """Raises HostRefused unless SQL may connect to a host that has this address."""
        found = _plain(ip_address(address.partition("%")[0]))
        if any(found in network for network in self._networks()):
            return
        if _is_own_link(found):
            raise HostRefused(
                f"host '{host}' is refused",
                detail=f"{found} is of the machine's own link, where clouds keep credentials",
                hint=f"{self.command} --hosts {found} allows it",
            )
        name = host.lower().rstrip(".")
        if self.hosts is not None and not any(
            fnmatchcase(name, pattern.lower()) for pattern in self.hosts
        ):
            raise HostRefused(
                f"host '{host}' is refused",
                detail=f"tables may connect to {', '.join(self.hosts) or 'no host'}",
                hint=f"{self.command} --hosts {name} allows it",
            )

    def _networks(self) -> list[Network]:
        found = []
        for text in self.hosts or ():
            try:
                found.append(ip_network(text, strict=False))
            except ValueError:
                continue  # a pattern of names
        return found


ANY_HOSTS: Final = NetworkAccess()


def _plain(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 one wraps, else itself."""
    wrapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if wrapped is None else wrapped


def _is_own_link(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _METADATA
    )
