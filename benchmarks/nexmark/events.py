"""Events of an auction house, as JSON lines: of 50 events one is a new person, three are new
auctions and 46 are bids.

The same seed gives the same files. Ids follow one another; most bids go to few hot auctions and
come from few hot people, a bid's auction is always one that has begun, and texts fill a bid to
about 200 bytes, as the benchmark's own generator has it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

START_MS = 1_735_689_600_000  # 2025-01-01
EVENTS_PER_SECOND = 10_000
_PERSONS, _AUCTIONS, _EVENTS = 1, 3, 50
_FIRST = 1000  # the first id of each kind
_HOT = 100  # a hot auction or person is every so manieth
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Boise", "Bend", "Cheyenne", "Kent", "Phoenix", "Portland", "Redmond", "Seattle")
_NAMES = ("Ada", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Joe")
_CHANNELS = ("apple", "google", "facebook", "baidu")
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", np.uint8)


@dataclass
class _Texts:
    """Letters by chance, cut from one long text."""

    random: np.random.Generator

    def __post_init__(self) -> None:
        self._text = self.random.choice(_LETTERS, 1 << 20).tobytes().decode()

    def cut(self, length: int) -> str:
        start = int(self.random.integers(0, len(self._text) - length))
        return self._text[start : start + length]


def write(folder: Path, events: int, seed: int = 1) -> dict[str, int]:
    """Writes person.json, auction.json and bid.json; the number of rows of each."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"person": 0, "auction": 0, "bid": 0}
    files = {kind: (folder / f"{kind}.json").open("w", encoding="utf-8") for kind in counts}
    for kind, event in generate(events, seed):
        files[kind].write(json.dumps(event, separators=(",", ":")) + "\n")
        counts[kind] += 1
    for file in files.values():
        file.close()
    return counts


def generate(events: int, seed: int) -> Iterator[tuple[str, dict[str, object]]]:
    """The kind of each event, and its columns."""
    random = np.random.default_rng(seed)
    texts = _Texts(random)
    for number in range(events):
        epoch, within = divmod(number, _EVENTS)
        time = START_MS + number * 1000 // EVENTS_PER_SECOND
        if within < _PERSONS:
            yield "person", _person(epoch, time, random, texts)
        elif within < _PERSONS + _AUCTIONS:
            yield (
                "auction",
                _auction(epoch * _AUCTIONS + within - _PERSONS, epoch, time, random, texts),
            )
        else:
            yield "bid", _bid(epoch, time, random, texts)


def _person(
    number: int, time: int, random: np.random.Generator, texts: _Texts
) -> dict[str, object]:
    one, two = (_NAMES[i] for i in random.integers(0, len(_NAMES), 2))
    return {
        "id": _FIRST + number,
        "name": f"{one} {two}",
        "emailAddress": f"{one}@{texts.cut(8).strip() or 'mail'}.com".lower(),
        "creditCard": " ".join(f"{n:04}" for n in random.integers(0, 10_000, 4)),
        "city": _CITIES[int(random.integers(0, len(_CITIES)))],
        "state": _STATES[int(random.integers(0, len(_STATES)))],
        "dateTime": _text(time),
        "extra": texts.cut(int(random.integers(40, 100))),
    }


def _auction(
    number: int, people: int, time: int, random: np.random.Generator, texts: _Texts
) -> dict[str, object]:
    initial = int(10 ** random.uniform(0, 6) * 100)
    return {
        "id": _FIRST + number,
        "itemName": texts.cut(20),
        "description": texts.cut(100),
        "initialBid": initial,
        "reserve": initial + int(10 ** random.uniform(0, 6) * 100),
        "dateTime": _text(time),
        "expires": _text(time + 1 + int(random.exponential(10_000))),
        "seller": _FIRST + _some(people, 4, random),
        "category": 10 + int(random.integers(0, 5)),
        "extra": texts.cut(int(random.integers(60, 160))),
    }


def _bid(epoch: int, time: int, random: np.random.Generator, texts: _Texts) -> dict[str, object]:
    hot = random.random() < 0.5
    channel = (
        _CHANNELS[int(random.integers(0, 4))]
        if hot
        else f"channel-{int(random.integers(0, 10_000))}"
    )
    path = f"https://auctions.example.com/{texts.cut(5).replace(' ', 'x')}/{texts.cut(5).replace(' ', 'y')}"
    return {
        "auction": _FIRST + _some(epoch * _AUCTIONS + _AUCTIONS - 1, 2, random),
        "bidder": _FIRST + _some(epoch, 4, random),
        "price": int(10 ** random.uniform(0, 6) * 100),
        "channel": channel,
        "url": (
            f"{path}/item.htm?query=1"
            + ("" if hot else f"&channel_id={int(random.integers(0, 2**30))}")
        ),
        "dateTime": _text(time),
        "extra": texts.cut(int(random.integers(30, 70))),
    }


def _some(last: int, hot: int, random: np.random.Generator) -> int:
    """A number up to `last`: of `hot` of them all but one the last hot one, the others one of the
    last hundred."""
    if random.random() * hot >= 1:
        return last // _HOT * _HOT
    return max(0, last - int(random.integers(0, 100)))


def _text(time: int) -> str:
    seconds, ms = divmod(time, 1000)
    return f"{np.datetime64(seconds, 's').astype(str).replace('T', ' ')}.{ms:03}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(write(options.folder, options.events, options.seed))
