"""Changes of bytes and of texts, by a seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

# What parsers of texts, numbers, names and paths have stumbled over.
NASTY: Sequence[bytes] = (
    *(
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\r\n",
        b"\n\n",
        b"'",
        b'"',
        b"`",
        b"\\",
        b";",
    ),
    *(b"--", b"/*", b"%00", b"%", b"../", b"/", b"${secret:x}", b"${x}", b"[", b"{", b"}" * 9),
    *(b"[" * 300, b"(" * 300, b"9" * 400, b"-1", b"0", b"1e999", b"NaN", b"null", b"true"),
    *(b"18446744073709551616", b"-9223372036854775809", b"\x1b[2J", "\u202e".encode(), b"A" * 5000),
)
_TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|.", re.DOTALL)


def mutated(random: Random, data: bytes) -> bytes:
    """Returns the bytes with one to four changes."""
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        to = min(len(data), at + random.choice((1, 1, 2, 8, 64)))
        match random.randrange(6):
            case 0:  # a bit
                if at < len(data):
                    data = (
                        data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
                    )
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + random.choice(NASTY) + data[to:]
            case 4:
                data = data[:to] + data[at:to] * random.choice((1, 2, 30)) + data[to:]
            case _:
                data = data[:at] + random.randbytes(random.choice((1, 4, 40))) + data[at:]
    return data[: 1 << 20]


def mutated_text(random: Random, text: str, others: Sequence[str]) -> str:
    """Returns SQL with one to five changes of tokens; some are taken from other texts."""
    tokens: list[str] = _TOKEN.findall(text)
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(tokens) + 1)
        to = min(len(tokens), at + random.choice((1, 2, 3, 12)))
        match random.randrange(5):
            case 0:
                tokens[at:to] = []
            case 1:
                tokens[at:at] = tokens[at:to]
            case 2:
                other = _TOKEN.findall(random.choice(others))
                start = random.randrange(len(other) + 1)
                tokens[at:to] = other[start : start + random.choice((1, 3, 20))]
            case 3:
                nasty = random.choice(NASTY).decode("utf-8", "surrogateescape")
                tokens[at:to] = [nasty.encode("utf-8", "replace").decode()]
            case _:
                tokens[at:to] = ["(", *tokens[at:to], ")"] * random.choice((1, 1, 20))
    return "".join(tokens)[: 1 << 17]
