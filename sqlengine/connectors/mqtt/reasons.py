"""Reason codes of MQTT in words."""

from __future__ import annotations

from typing import Final

# Of MQTT 3.1.1, when a connection is refused.
REFUSALS: Final = {
    1: "it does not speak MQTT 3.1.1",
    2: "the client id is not allowed",
    3: "it is unavailable",
    4: "'username' or 'password' is wrong",
    5: "not authorized: see 'username' and 'password'",
}
# Of MQTT 5.
REASONS: Final = {
    0x00: "normal",
    0x04: "normal, with will",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation error",
    0x84: "it does not speak MQTT 5: 'version' = '3.1.1' may work",
    0x85: "the client id is not allowed",
    0x86: "'username' or 'password' is wrong",
    0x87: "not authorized: see 'username' and 'password'",
    0x88: "it is unavailable",
    0x89: "it is busy",
    0x8A: "banned",
    0x8B: "it shuts down",
    0x8D: "nothing was heard for too long",
    0x8E: "another client has connected with the same id",
    0x8F: "the filter of topics is not allowed",
    0x90: "the topic is not allowed",
    0x93: "more messages than it takes at once",
    0x95: "the packet is too large",
    0x97: "over its quota",
    0x98: "an administrator has ended it",
    0x99: "the payload has another format",
    0x9A: "it keeps no retained messages",
    0x9B: "it does not know this QoS",
    0x9C: "use another server",
    0x9D: "the server has moved",
    0x9E: "it has no shared subscriptions",
    0x9F: "too many connections",
    0xA1: "it has no identifiers of subscriptions",
    0xA2: "it has no wildcards",
}


def refusal(code: int) -> str:
    """Returns why something was refused, by its reason code."""
    return REASONS.get(code, f"reason {code:#04x}")
