"""Sigma's YAML as the values of `rules`, read by pySigma: the one file that needs it.

Only what a rule matches goes through pySigma: an author who forgets a date must not cost a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, cast

import regex

from parser.errors import ServiceError
from sqlengine.sigma.rules import (
    About,
    All,
    AnyOf,
    Combination,
    Combined,
    Comparison,
    Condition,
    Correlation,
    Document,
    Exists,
    FieldReference,
    Filter,
    LogSource,
    Match,
    Network,
    Not,
    Null,
    Number,
    Of,
    Placeholder,
    Regex,
    Rule,
    Some,
    Text,
    TextPart,
    Truth,
    Unread,
    Value,
    Wildcard,
)

try:
    import yaml
    from sigma import conditions, types
    from sigma import correlations as correlation_types
    from sigma.collection import deep_dict_update
    from sigma.correlations import SigmaCorrelationRule
    from sigma.exceptions import SigmaError
    from sigma.filters import SigmaFilter
    from sigma.modifiers import SigmaWideModifier, modifier_mapping
    from sigma.policy import SigmaPolicy
    from sigma.policy.regex_engine import RegexEngine, RegexPattern
    from sigma.rule import SigmaRule
    from sigma.rule.base import SigmaYAMLLoader, check_alias_expansion
    from sigma.rule.detection import SigmaDetections
    from sigma.rule.logsource import SigmaLogSource
except ImportError as error:
    raise ServiceError(
        f"Sigma rules need pySigma ({error.name} is not installed)",
        hint="pip install 'sqlengine[sigma]'",
    ) from None

_Raw: TypeAlias = dict[str, object]
# The specification names it, pySigma knows its other name only.
modifier_mapping.setdefault("utf16le", SigmaWideModifier)

_OWN: Final = frozenset(
    "title id name level status description author tags references falsepositives logsource"
    " detection correlation filter action".split()
)
_OPERATORS: Final = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "EQ": "=", "NEQ": "<>"}
_FLAGS: Final = {"IGNORECASE": "i", "MULTILINE": "m", "DOTALL": "s"}


class _Patterns(RegexEngine):
    """Takes more patterns than RE2 does: whether ours are good is for our own REGEXP to say."""

    def compile(self, pattern: str, flags: int = 0) -> RegexPattern:
        return cast(RegexPattern, regex.compile(pattern, flags))

    @property
    def error(self) -> type[Exception]:
        return cast(type[Exception], regex.error)


_POLICY: Final = SigmaPolicy(regex_engine=_Patterns())


def read(text: str, file: str = "") -> list[Document]:
    """Returns the documents of a YAML text, those that are no rules with the reason."""
    try:
        raw = list(yaml.load_all(text, SigmaYAMLLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return [Unread(About(file or "YAML", file=file), f"it is no YAML: {_line(error)}")]
    return [_document(d, file, at) for at, d in enumerate(_merged(raw), 1)]


def plain_yaml(text: str) -> object:
    """Returns a YAML text as plain values. ServiceError where it is none."""
    try:
        return cast(object, yaml.load(text, SigmaYAMLLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ServiceError("it is no YAML", detail=_line(error)) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _merged(raw: list[object]) -> Iterator[object]:
    """Yields documents with what `action: global` and `repeat` add to them."""
    common: _Raw = {}
    last: _Raw = {}
    for document in raw:
        if document is None:
            continue
        action = document.get("action") if isinstance(document, dict) else None
        if not isinstance(document, dict) or action not in (None, "global", "reset", "repeat"):
            yield document
        elif action == "global":
            del document["action"]
            common = last = document
        elif action == "reset":
            common = {}
        elif action == "repeat":
            del document["action"]
            last = deep_dict_update(last, document)
            yield last
        elif "correlation" in document or "filter" in document:
            yield document
        else:
            last = deep_dict_update(document, common)
            yield last


def _document(raw: object, file: str, place: int) -> Document:
    if not isinstance(raw, dict):
        return Unread(About(file or "YAML", file=file, place=place), "it is no map of attributes")
    about = _about(raw, file, place)
    kinds: dict[str, Callable[[_Raw, About], Document]] = {
        "correlation": _correlation,
        "filter": _filter,
        "detection": _rule,
    }
    for attribute, make in kinds.items():
        if attribute in raw:
            try:
                check_alias_expansion(raw)
                return make(raw, about)
            except (SigmaError, AttributeError, KeyError, TypeError, ValueError) as error:
                return Unread(about, _line(error))
            except RecursionError:
                return Unread(about, "it is nested too deeply")
    return Unread(about, "it has none of the attributes detection, correlation, filter")


def _about(raw: _Raw, file: str, place: int) -> About:
    def words(name: str) -> str:
        value = raw.get(name)
        return "" if value is None else str(value).strip()

    def several(name: str) -> tuple[str, ...]:
        value = raw.get(name)
        found = value if isinstance(value, list) else [] if value is None else [value]
        return tuple(str(v) for v in found)

    others = {k: v for k, v in raw.items() if k not in _OWN and not isinstance(v, list | dict)}
    return About(
        words("title") or words("name") or file,
        words("id"),
        words("name"),
        words("level").lower(),
        words("status").lower(),
        words("description"),
        words("author"),
        several("tags"),
        several("references"),
        several("falsepositives"),
        {str(k): str(v) for k, v in others.items() if v is not None},
        file,
        place,
    )


def _rule(raw: _Raw, about: About) -> Rule:
    wanted = {"title": about.title} | {k: raw[k] for k in ("logsource", "detection") if k in raw}
    rule = SigmaRule.from_dict(wanted, policy=_POLICY)
    return Rule(about, _source(rule.logsource), _detections(rule.detection))


def _filter(raw: _Raw, about: About) -> Filter:
    wanted = {"title": about.title} | {k: raw[k] for k in ("logsource", "filter") if k in raw}
    found = SigmaFilter.from_dict(wanted, policy=_POLICY)
    named = found.filter.rules
    rules = None if isinstance(named, str) else tuple(str(r.reference) for r in named)
    return Filter(about, _source(found.logsource), rules, _detections(found.filter))


def _source(source: SigmaLogSource) -> LogSource:
    return LogSource(source.category, source.product, source.service)


def _correlation(raw: _Raw, about: About) -> Correlation:
    wanted = {"title": about.title, "correlation": raw["correlation"]}
    found = SigmaCorrelationRule.from_dict(wanted)
    condition, combination = found.condition, None
    operator, number, percentile = ">=", float(1), None
    fields: tuple[str, ...] = ()
    if isinstance(condition, correlation_types.SigmaExtendedCorrelationCondition):
        combination = _combination(condition.parsed)
        rules = tuple(condition.get_referenced_rules())
    else:
        rules = tuple(str(r.reference) for r in found.rules or ())
        operator, number = _OPERATORS[condition.op.name], condition.count
        named = condition.fieldref
        fields = tuple(named) if isinstance(named, list) else (named,) if named else ()
        percentile = condition.percentile
    return Correlation(
        about,
        found.type.name.lower(),
        rules,
        found.timespan.seconds,
        tuple(found.group_by or ()),
        operator,
        number,
        fields,
        percentile,
        {a.alias: {str(r.reference): f for r, f in a.mapping.items()} for a in found.aliases},
        combination,
        found.generate,
    )


def _combination(node: object) -> Combination:
    match node:
        case correlation_types.SigmaRuleReference():
            return Of(node.reference)
        case correlation_types.CorrelationConditionItem():
            operator = type(node).__name__.removeprefix("CorrelationCondition")
            return Combined(operator, tuple(_combination(a) for a in node.args))
    raise ValueError(f"unknown condition {node}")


# ---- conditions and values ---------------------------------------------------------------------


def _detections(detections: SigmaDetections) -> Condition:
    """Returns the condition; of several, any of them."""
    found = [_condition(c.parsed) for c in detections.parsed_condition]
    return found[0] if len(found) == 1 else Some(tuple(found))


def _condition(node: object) -> Condition:
    match node:
        case conditions.ConditionAND():
            return All(tuple(_condition(a) for a in node.args))
        case conditions.ConditionOR():
            return Some(tuple(_condition(a) for a in node.args))
        case conditions.ConditionNOT():
            return Not(_condition(node.args[0]))
        case conditions.ConditionFieldEqualsValueExpression():
            return Match(node.field, _value(node.value))
        case conditions.ConditionValueExpression():
            return Match(None, _value(node.value))
    raise ValueError("the condition says nothing")


def _value(value: object) -> Value:
    match value:
        case types.SigmaString():
            parts = tuple(_part(p) for p in value.s)
            return Text(parts, isinstance(value, types.SigmaCasedString))
        case types.SigmaTimestampPart():
            return Comparison("=", value.number, value.timestamp_part.name)
        case types.SigmaNumber():
            return Number(value.number)
        case types.SigmaCompareExpression():
            number = value.number
            part = (
                number.timestamp_part.name if isinstance(number, types.SigmaTimestampPart) else None
            )
            return Comparison(_OPERATORS[value.op.name], number.number, part)
        case types.SigmaRegularExpression():
            flags = "".join(sorted(_FLAGS[f.name] for f in value.flags))
            return Regex(_pattern(value.regexp.s), flags)
    return _plain_value(value)


def _plain_value(value: object) -> Value:
    match value:
        case types.SigmaBool():
            return Truth(value.boolean)
        case types.SigmaNull():
            return Null()
        case types.SigmaExists():
            return Exists(value.exists)
        case types.SigmaCIDRExpression():
            return Network(value.cidr)
        case types.SigmaFieldReference():
            return FieldReference(value.field, value.starts_with, value.ends_with)
        case types.SigmaExpansion():
            return AnyOf(tuple(_value(v) for v in value.values))
    raise ValueError(f"values of the kind {type(value).__name__} are unknown")


def _part(part: object) -> TextPart:
    match part:
        case str():
            return part
        case types.SpecialChars():
            return Wildcard(types.special_char_mapping[part])
        case types.Placeholder():
            return Placeholder(part.name)
    raise ValueError(f"a text with a part of the kind {type(part).__name__}")


def _pattern(parts: Iterable[object]) -> tuple[str | Placeholder, ...]:
    """Returns the parts of a pattern, in which * and ? are no wildcards."""
    found: list[str | Placeholder] = []
    for part in map(_part, parts):
        plain = part.value if isinstance(part, Wildcard) else part
        if isinstance(plain, str) and found and isinstance(found[-1], str):
            found[-1] += plain
        else:
            found.append(plain)
    return tuple(found)


def text_parts(text: str) -> tuple[TextPart, ...]:
    """Returns a text with its wildcards, as a rule has it."""
    return tuple(_part(p) for p in types.SigmaString(text).s)


def detection(raw: object) -> Condition:
    """Returns what one detection of a rule says. Raises ValueError where it is none."""
    try:
        found = {"detection": {"selection": raw, "condition": "selection"}}
        return _rule({"title": "-", "logsource": {"product": "-"}, **found}, About("-")).condition
    except SigmaError as error:
        raise ValueError(_line(error)) from None
