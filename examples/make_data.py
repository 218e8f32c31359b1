"""Writes the small files that the examples read: `python -m examples.make_data`. The same every
time."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from demo.events import ATTACKS, generate, spread

DATA = Path(__file__).parent / "data"
START = datetime(2026, 3, 2, 8, 0)


def events() -> Iterator[dict[str, object]]:
    """Five minutes of a company's events with every attack, and one in fifteen of the ordinary
    ones."""
    for number, event in enumerate(generate(7, 6000, spread(6000, ATTACKS))):
        if event["scenario"] or number % 15 == 0:
            yield {
                name: value
                for name, value in event.items()
                if value is not None and name != "scenario"
            }


def payments(rng: random.Random) -> Iterator[dict[str, object]]:
    """An hour of payments: account A-07 pays very often, A-11 much, A-15 from far away."""
    time = START
    for number in range(1, 301):
        time += timedelta(seconds=rng.uniform(1, 22))
        account, country = (
            f"A-{rng.randrange(1, 21):02d}",
            rng.choice(["DE", "DE", "DE", " de", "FR", "at "]),
        )
        amount = round(rng.choice([9.99, 24.5, 49.9]) * rng.uniform(0.5, 3), 2)
        if 100 <= number < 112:
            account, amount = "A-07", 0.99 + number % 3
        elif number in (150, 180, 210):
            account, amount = "A-11", 9000 + number * 1.5
        elif number in (190, 191):
            account, country = "A-15", "KP"
        currency = rng.choice(["EUR", "EUR", "USD", "GBP"])
        yield {
            "ts": f"{time:%Y-%m-%d %H:%M:%S}", "payment_id": number, "account": account, "amount": amount,
            "currency": currency, "country": country, "merchant": rng.choice(["shop", "fuel", "travel", "games", None]),
        }  # fmt: skip


def readings(rng: random.Random) -> Iterator[list[object]]:
    """Ten minutes of six sensors, one reading each five seconds; some empty, a hot one, and rows
    that come late."""
    rows: list[list[object]] = []
    for step in range(120):
        time = START + timedelta(seconds=5 * step)
        for device in range(1, 7):
            celsius = round(
                21 + device + rng.gauss(0, 0.4) + (45 if device == 4 and 60 <= step < 66 else 0), 1
            )
            empty = rng.random() < 0.01
            row: list[object] = [
                f"{time:%Y-%m-%d %H:%M:%S}",
                f"s-{device}",
                "" if empty else celsius,
                rng.randrange(35, 60),
            ]
            rows.append(row)
    for place in (100, 300, 500):  # these come 75 seconds after their time
        rows.insert(place + 90, rows.pop(place))
    return iter(rows)


def status(rng: random.Random) -> Iterator[list[object]]:
    """Half an hour of devices that say when they go and come."""
    time = START
    for _ in range(120):
        time += timedelta(seconds=rng.uniform(2, 28))
        state = rng.choice(["online", "online", "offline", "OFFLINE "])
        site = rng.choice(["north", "south"])
        yield [
            f"{time:%Y-%m-%d %H:%M:%S}",
            f"s-{rng.randrange(1, 31)}",
            site,
            state,
            rng.randrange(0, 100),
        ]


def write_json(name: str, rows: Iterable[dict[str, object]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (DATA / name).write_text(text, encoding="utf-8")


def write_csv(name: str, rows: Iterable[list[object]]) -> None:
    with (DATA / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write_json("events.json", events())
    write_json("payments.json", payments(random.Random(1)))
    write_csv("readings.csv", readings(random.Random(2)))
    write_csv("status.csv", status(random.Random(3)))
