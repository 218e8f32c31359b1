"""Mappings: which table the rules of a log source read, what its fields are called there, and what
an alert is. A mapping is a YAML file; those of the package (`mappings/`) are named without path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from parser.errors import ServiceError
from sqlengine.sigma.reading import Reading, Replacement, SqlTest
from sqlengine.sigma.rules import Condition, LogSource
from sqlengine.sigma.tables import EventTable

FOLDER: Final = Path(__file__).parent / "mappings"
# What is used where nobody says anything: a table for each category or service.
DEFAULT: Final = ("sigma",)
_SOURCE: Final = frozenset(
    "category product service table match where fields extra keywords".split()
)
_MAPPING: Final = frozenset(
    "extends sources fields extra keywords missing placeholders alerts owner statuses".split()
)


@dataclass(frozen=True)
class SourceTable:
    """A table for the rules of a log source. `table`: its name, with `{category}` and the like;
    `match`, `where`: what its rows fulfil, as a detection of Sigma and as SQL."""

    source: LogSource
    table: str
    match: Condition | None = None
    where: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    extra: str | None = None
    keywords: tuple[str, ...] | None = None

    def name_for(self, source: LogSource) -> str:
        """The table's name for a rule; '' where the rule says too little."""
        given = {"category": source.category, "product": source.product, "service": source.service}
        if any("{" + k + "}" in self.table and not v for k, v in given.items()):
            return ""
        return self.table.format(**given)


@dataclass(frozen=True)
class AlertForm:
    """The table of alerts, and their columns as SQL with `{id}` and the like; None: those of the
    table that have known names."""

    table: str = "alerts"
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Mappings:
    """Several mappings as one: the first table that is there is taken."""

    sources: tuple[SourceTable, ...] = ()
    null_missing: bool = False
    placeholders: Mapping[str, tuple[Replacement, ...]] = field(default_factory=dict)
    alerts: AlertForm = field(default_factory=AlertForm)
    owner: str = ""
    statuses: Mapping[str, str] = field(default_factory=dict)

    def tables_for(self, source: LogSource) -> Iterator[tuple[str, SourceTable]]:
        """Yields the tables that rules of a log source may read, in order."""
        for each in self.sources:
            if source.within(each.source) and (name := each.name_for(source)):
                yield name, each

    def reading(self, chosen: SourceTable, table: EventTable) -> Reading:
        return Reading(
            table,
            chosen.fields,
            chosen.extra,
            chosen.keywords,
            self.null_missing,
            chosen.where,
            self.placeholders,
            chosen.match,
        )


def load_mappings(named: Sequence[str], folder: Path | None = None) -> Mappings:
    """Loads mappings by name or path and puts them together, the first before the others; `folder`
    is where the paths begin. ServiceError where one is wrong."""
    found = [_load(name, folder or Path(), ()) for name in named]
    return _joined(found)


def mapping_names() -> list[str]:
    return sorted(p.stem for p in FOLDER.glob("*.yaml"))


def _joined(found: Sequence[Mappings]) -> Mappings:
    joined = found[0] if found else Mappings()
    for other in found[1:]:
        joined = replace(
            joined,
            sources=joined.sources + other.sources,
            null_missing=joined.null_missing or other.null_missing,
            placeholders={**other.placeholders, **joined.placeholders},
            alerts=other.alerts if joined.alerts == AlertForm() else joined.alerts,
            owner=joined.owner or other.owner,
            statuses={**other.statuses, **joined.statuses},
        )
    return joined


def _load(name: str, folder: Path, above: tuple[str, ...]) -> Mappings:
    path = FOLDER / f"{name}.yaml"
    if "/" in name or "." in name or not path.is_file():
        path = folder / name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ServiceError(
            f"mapping '{name}' cannot be read",
            detail=why,
            hint=f"a file, or one of {', '.join(mapping_names())}",
        ) from None
    if str(path) in above:
        raise ServiceError(f"mapping '{name}' extends itself")
    return read_mapping(text, str(path), (*above, str(path)))


def read_mapping(text: str, file: str, above: tuple[str, ...] = ()) -> Mappings:
    """Reads a mapping. ServiceError where it is wrong."""
    from sqlengine.sigma.parsing import plain_yaml

    try:
        raw = _map(plain_yaml(text) or {}, "the mapping", _MAPPING)
        own = _own(raw)
        named = _list(raw.get("extends", [] if "sources" in raw else list(DEFAULT)))
        extended = [_load(str(e), Path(file).parent, above) for e in named]
    except ValueError as error:
        raise ServiceError(f"mapping '{file}' is wrong", detail=str(error)) from None
    below = _joined(extended)
    fields = _texts(raw.get("fields"), "fields")
    sources = tuple(replace(s, fields={**s.fields, **fields}) for s in below.sources)
    return _joined([own, replace(below, sources=sources)])


def _own(raw: Mapping[str, object]) -> Mappings:
    common = {k: raw[k] for k in ("fields", "extra", "keywords") if k in raw}
    missing = raw.get("missing", "refuse")
    if missing not in (None, "null", "refuse"):
        raise ValueError(f"'missing' is null or refuse, not {missing}")
    alerts = _map(raw.get("alerts", {}), "alerts", frozenset(("table", "columns")))
    columns = _texts(alerts["columns"], "alerts.columns") if "columns" in alerts else None
    placeholders = _map(raw.get("placeholders", {}), "placeholders")
    return Mappings(
        tuple(_source(s, common) for s in _list(raw.get("sources"))),
        missing != "refuse",
        {k: tuple(_replacement(v) for v in _list(vs)) for k, vs in placeholders.items()},
        AlertForm(str(alerts.get("table", "alerts")), columns),
        str(raw.get("owner") or ""),
        _texts(raw.get("statuses"), "statuses"),
    )


def _source(raw: object, common: Mapping[str, object]) -> SourceTable:
    from sqlengine.sigma.parsing import detection

    given = _map(raw, "a source", _SOURCE)
    if not given.get("table"):
        raise ValueError(f"a source without 'table': {raw}")
    said = {k: str(given[k]) if given.get(k) else None for k in ("category", "product", "service")}
    fields = {**_texts(common.get("fields"), "fields"), **_texts(given.get("fields"), "fields")}
    extra, keywords = ({**common, **given}.get(k) for k in ("extra", "keywords"))
    return SourceTable(
        LogSource(**said),
        str(given["table"]),
        detection(given["match"]) if "match" in given else None,
        str(given["where"]) if "where" in given else None,
        fields,
        None if extra is None else str(extra),
        None if keywords is None else tuple(map(str, _list(keywords))),
    )


def _replacement(raw: object) -> Replacement:
    from sqlengine.sigma.parsing import text_parts

    if isinstance(raw, dict):
        return SqlTest(_texts(raw, "a placeholder")["sql"])
    return text_parts(str(raw))


def _map(raw: object, what: str, known: frozenset[str] | None = None) -> dict[str, object]:
    if not isinstance(raw, dict):
        raise ValueError(f"{what} is no map of names and values")
    unknown = sorted(set(raw) - known) if known is not None else []
    if unknown:
        raise ValueError(f"{what} has '{unknown[0]}'; known are {', '.join(sorted(known or ()))}")
    return {str(k): v for k, v in raw.items()}


def _list(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else [] if raw is None else [raw]


def _texts(raw: object, what: str) -> dict[str, str]:
    return {k: str(v) for k, v in _map(raw or {}, what).items()}
