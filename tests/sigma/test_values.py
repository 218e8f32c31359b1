"""Values of rules and what they match: every modifier, texts, numbers, what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from parser.types import BIGINT, BOOLEAN, DOUBLE, DataType
from sqlengine.sigma.parsing import read
from sqlengine.sigma.rules import Unread
from tests.sigma.running import matches

CASES: list[tuple[str, list[str | None], list[str | None]]] = [
    # what a field F is asked for, values that match, values that do not
    ("F: cmd.exe", ["cmd.exe", "CMD.exe"], ["cmd.exe ", "xcmd.exe", "", None]),
    ("F: [a, b]", ["a", "B"], ["ab", None]),
    ("F: ''", [""], [" ", None]),
    ("F: null", [None], ["", "null"]),
    ("F|exists: true", ["", "x"], [None]),
    ("F|exists: false", [None], ["", "x"]),
    ("F: 5", ["5"], ["05", "5.0", None]),
    ("F: true", ["true", "True"], ["1", None]),
    (r"F: 'a*b?c'", ["abxc", "A--bxc\n".strip()], ["abc", "abxcd", None]),
    (r"F: 'a\*b'", ["a*b"], ["axb", r"a\*b"]),
    (r"F: 'a\\*b'", ["a\\b", "a\\xb"], ["a*b", "ab"]),
    (r"F: 'a\\\*b'", ["a\\*b"], ["a\\xb", "a*b"]),
    (r"F: 'c:\x\y'", ["C:\\X\\y"], ["c:xy", "c:\\\\x\\y"]),
    (r"F: '\\host\share'", ["\\host\\share"], ["\\\\host\\share"]),
    (r"F: '\\\\host\share'", ["\\\\host\\share"], ["\\host\\share"]),
    ("F: '100%_'", ["100%_"], ["100xx", "100%x"]),
    ("F|contains: '%_'", ["a%_b"], ["ab", "a%xb"]),
    ("F: it's", ["IT'S"], ["its"]),
    ("F: '*'", ["", "x"], [None]),
    ("F|contains: '*'", ["", "x"], [None]),
    ("F|startswith: ab", ["AB", "abc"], ["xab", None]),
    ("F|endswith: ab", ["AB", "cab"], ["abx", None]),
    ("F|contains: [ab, cd]", ["xABx", "cd"], ["ac", None]),
    ("F|contains|all: [ab, cd]", ["cdab", "ab cd"], ["ab", "cd", None]),
    ("F|cased: Ab", ["Ab"], ["ab", "AB", None]),
    ("F|contains|cased: Ab", ["xAbx"], ["xabx"]),
    ("F|startswith|cased: 'A_'", ["A_x"], ["a_x", "Axx"]),
    ("F|re: 'a+b$'", ["xaab"], ["aabx", "AAB", None]),
    ("F|re|i: 'a+b'", ["AAB"], ["ba"]),
    ("F|re|m: '^b$'", ["a\nb\nc"], ["ab"]),
    ("F|re|s: 'a.b'", ["a\nb"], ["ab"]),
    ("F|re|i|s: 'A.B'", ["a\nb"], ["ab"]),
    ("F|re: 'a.b'", ["axb"], ["a\nb"]),
    (r"F|re: 'C:\\[^\\]+\\(?:x|y)\.exe'", ["C:\\dir\\x.exe"], ["C:\\dir\\dir\\z.exe"]),
    ("F|re: \"it's [*?]\"", ["it's *"], ["it's x"]),
    ("F|cidr: 10.0.0.0/8", ["10.1.2.3"], ["11.0.0.1", "x", None]),
    ("F|cidr: [192.168.0.0/16, 'fc00::/7']", ["192.168.9.9", "fd12::1"], ["fe80::1", "10.0.0.1"]),
    ("F|cidr: '::1/128'", ["::1", "0:0:0:0:0:0:0:1"], ["::2"]),
    ("F|gt: 5", ["6", "5.5"], ["5", "x", None]),
    ("F|gte: 5", ["5"], ["4"]),
    ("F|lt: 5", ["4.9", "-7"], ["5"]),
    ("F|lte: 5.5", ["5.5"], ["6"]),
    ("F|neq: a", ["b", "", None], ["a", "A"]),
    ("F|neq: [a, b]", ["c", None], ["a", "B"]),
    ("F|contains|neq: a", ["b", None], ["xax"]),
    ("F|windash|contains: ' -enc'", [" -enc", " /ENC", " –enc", " —enc", " ―enc"], ["enc", None]),
    ("F|contains|all|windash: [' -a', ' /b']", [" /a -b"], [" -a", " b"]),
    ("F|base64: foobar", ["Zm9vYmFy"], ["foobar"]),
    ("F|base64offset|contains: foobar", ["xxZm9vYmFyxx", "Zvb2Jhc", "mb29iYX"], ["foobar"]),
    ("F|wide|base64offset|contains: ping", ["cABpAG4AZw", "AAaQBuAGcA"], ["cGluZw"]),
    ("F|utf16le|base64: ab", ["YQBiAA=="], ["YWI="]),
    ("F|utf16be|base64: ab", ["AGEAYg=="], ["YQBiAA=="]),
    ("F|utf16|base64: ab", ["//5hAGIA"], ["YQBiAA=="]),
    ("F|minute: 4", ["2024-01-02 03:04:05"], ["2024-01-02 03:05:05", "x", None]),
    ("F|hour: 3", ["2024-01-02T03:04:05.123Z"], ["2024-01-02T04:04:05Z"]),
    ("F|hour|gte: 20", ["2024-01-02T21:04:05Z"], ["2024-01-02T04:04:05Z"]) ,
    ("F|day: 2", ["2024-01-02T03:04:05Z"], ["2024-01-03T03:04:05Z"]),
    ("F|week: 1", ["2024-01-02T03:04:05Z"], ["2024-01-09T03:04:05Z"]),
    ("F|month: [1, 2]", ["2024-02-02T03:04:05Z"], ["2024-03-02T03:04:05Z"]),
    ("F|year: 2024", ["2024-02-02T03:04:05Z"], ["2023-03-02T03:04:05Z"]),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "good", "bad"), CASES, ids=[c[0] for c in CASES])
def test_value(asked: str, good: list[str | None], bad: list[str | None]) -> None:
    detection = f"selection:\n  {asked}"
    assert [v for v in good if not matches(detection, {"F": v})] == []
    assert [v for v in bad if matches(detection, {"F": v})] == []
    excluded = f"{detection}\ncondition: not selection"
    assert [v for v in good if matches(excluded, {"F": v})] == []
    assert [v for v in bad if not matches(excluded, {"F": v})] == []


TYPED: list[tuple[str, DataType, list[Any], list[Any]]] = [
    ("F: 5", BIGINT, [5], [6, None]),
    ("F: '5'", BIGINT, [5], [55]),
    ("F: '5*'", BIGINT, [5, 56], [65]),
    ("F|contains: '05'", BIGINT, [1050], [50]),
    ("F: x", BIGINT, [], [5, None]),
    ("F: 5.5", BIGINT, [], [5, 6]),
    ("F: 99999999999999999999", BIGINT, [], [9]),
    ("F|gt: 5", BIGINT, [6], [5, None]),
    ("F|re: '^4[67]'", BIGINT, [4688, 47], [5]),
    ("F: true", BIGINT, [1], [0, 2]),
    ("F|gte: 0.5", DOUBLE, [0.5], [0.4]),
    ("F: true", BOOLEAN, [True], [False, None]),
    ("F: 'TRUE'", BOOLEAN, [True], [False]),
    ("F: 'fals*'", BOOLEAN, [False], [True]),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "kind", "good", "bad"), TYPED)
def test_value_of_a_column_that_is_no_text(
    asked: str, kind: DataType, good: list[Any], bad: list[Any]
) -> None:
    detection = f"selection:\n  {asked}"
    assert [v for v in good if not matches(detection, {"F": v}, F=kind)] == []
    assert [v for v in bad if matches(detection, {"F": v}, F=kind)] == []


REFERENCES = [
    ("F|fieldref: G", "Ab", "aB", "b"),
    ("F|fieldref|startswith: G", "abc", "AB", "bc"),
    ("F|fieldref|endswith: G", "abc", "BC", "ab"),
    ("F|fieldref|contains: G", "abc", "B", "d"),
    ("F|fieldref|contains: G", "a%c", "%", "_"),
]


@pytest.mark.parametrize(("asked", "value", "good", "bad"), REFERENCES)
def test_another_field(asked: str, value: str, good: str, bad: str) -> None:
    detection = f"selection:\n  {asked}"
    assert matches(detection, {"F": value, "G": good})
    assert not matches(detection, {"F": value, "G": bad})
    assert not matches(detection, {"F": value, "G": None})
    assert matches("selection:\n  F|fieldref|neq: G", {"F": "a", "G": "b"})


def test_a_keyword_of_digits_is_found_in_numbers() -> None:
    assert matches("selection: ['462?']", {"N": 4624, "F": "x"}, N=BIGINT)
    assert not matches("selection: [462x]", {"N": 4624, "F": "x"}, N=BIGINT)


DETECTIONS = [
    # YAML, events that match, events that do not
    ("selection: [foo, b*r]", [{"F": "a Foo b"}, {"G": "xbarx"}], [{"F": "fo"}, {}]),
    ("selection:\n  '|all': [foo, bar]", [{"F": "foo", "G": "BAR"}], [{"F": "foo"}, {}]),
    ("selection:\n  - F: a\n    G: b\n  - F: c", [{"F": "a", "G": "b"}, {"F": "c"}], [{"F": "a"}]),
    ("s1: {F: a}\ns2: {G: b}\n_s3: {F: z}\ncondition: 1 of them", [{"F": "a"}, {"G": "b"}], [{"F": "z"}]),
    ("s1: {F: a}\ns2: {G: b}\ncondition: all of them", [{"F": "a", "G": "b"}], [{"F": "a"}]),
    ("s1: {F: a}\ns2: {G: b}\nx: {G: c}\ncondition: any of s*", [{"F": "a"}, {"G": "b"}], [{"G": "c"}]),
    ("a: {F: a}\nb: {G: b}\nc: {F: c}\ncondition: a or b and not c", [{"F": "a"}, {"G": "b"}], [{"F": "c", "G": "b"}]),
    ("a: {F: a}\nb: {G: b}\ncondition: not (a or b)", [{}, {"F": "x", "G": "y"}], [{"F": "a"}, {"G": "b"}]),
    ("a: {F: a}\nb: {G: b}\ncondition: [a, b]", [{"F": "a"}, {"G": "b"}], [{}]),
    ("a: {F: a}\nf1: {G: b}\nf2: {G: null}\ncondition: a and not 1 of f*", [{"F": "a", "G": "c"}], [{"F": "a"}, {"F": "a", "G": "b"}]),
]  # fmt: skip


@pytest.mark.parametrize(("detection", "good", "bad"), DETECTIONS)
def test_detection(detection: str, good: list[dict[str, str]], bad: list[dict[str, str]]) -> None:
    empty: dict[str, str | None] = {"F": None, "G": None}
    assert [e for e in good if not matches(detection, empty | e)] == []
    assert [e for e in bad if matches(detection, empty | e)] == []


@pytest.mark.parametrize(
    ("detection", "reason"),
    [
        ("{s: {F|foo: 1}, condition: s}", "Unknown modifier 'foo'"),
        ("{s: {F|cidr: 10.0.0.1/8}, condition: s}", "Invalid CIDR"),
        ("{s: {F|re: '('}, condition: s}", "invalid"),
        ("{s: {F: 1}, condition: t}", "'t' not defined"),
        ("{s: {F: 1}, condition: s | count() > 5}", "pipe syntax"),
        ("{s: {F|windash: ' -a -b -c -d'}, condition: s}", "three dash"),
    ],
)
def test_a_wrong_rule_says_why(detection: str, reason: str) -> None:
    (found,) = read(f"title: T\nlogsource: {{product: p}}\ndetection: {detection}")
    assert isinstance(found, Unread)
    assert reason in found.reason
