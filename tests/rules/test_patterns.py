"""LIKE, regular expressions and networks: what they mean, and which are refused when a rule is
added."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parser.errors import SqlError, UnsupportedError
from parser.types import STRING
from rules.columns import Columns
from rules.condition import TRANSFORMS, And, Condition, Not, Or, Predicate, Variable
from rules.counters import Counters
from rules.databases import compile_single
from rules.like import parse_like
from rules.options import Options
from rules.ruleset import RuleSet
from tests.rules import naive
from udf.java.regex import translate
from udf.registry import KernelContext
from udf.text.network import cidr_contains
from udf.text.regexps import regexp_matches
from udf.text.strings import lower, upper
from udf.text.trimming import ltrim, rtrim, trim
from udf.vector import Vector

S = Variable("s")
JAVA = [
    json.loads(line)
    for line in (Path(__file__).parent / "java_find.jsonl").read_text("utf-8").splitlines()
]
ALPHABET = st.text("ab%_\\\nÉ", max_size=8)


@given(text=ALPHABET, pattern=ALPHABET)
@settings(max_examples=600, deadline=None, derandomize=True)
def test_like_equals_its_definition(text: str, pattern: str) -> None:
    assert parse_like(pattern).matches(text) == naive.like(text, naive.tokens(pattern, None))


def test_like_takes_linear_time() -> None:
    assert not parse_like("%a%a%a%a%a%a%a%a%a%a%a%b").matches("a" * 50_000)


@pytest.mark.parametrize(("pattern", "text", "answer"), JAVA)
def test_regular_expressions_mean_what_java_says(pattern: str, text: str, answer: str) -> None:
    """Recorded with `java JavaFind.java` (JDK 17)."""
    if answer == "error":
        with pytest.raises(SqlError):
            translate(pattern)
        return
    java = translate(pattern)
    assert str(java.exact.search(text) is not None).lower() == answer
    if answer == "true":
        assert len(text) >= java.least
        scan, found = compile_single([java.superset], Counters(), None), []
        if scan is not None:
            scan(text.encode(), lambda *match: found.append(match))
            assert found


ATOMS = [
    "a", "B", "é", ".", r"\d", r"\W", "[^a]", "[a-cé]", r"\S", r"\x00", r"\n", r"\R", r"\bb", "^", "$",
    r"\z", r"\Z", r"\A", "(?i)b", "(?s).", "(?m)^", "(?m)$", "(?d)$", "(?=a)", "(?<!b)", r"(a|b)\1"
]  # fmt: skip
REPEATS = ["", "", "*", "+", "?", "??", "++", "{2}", "{0,3}", "{2,}", "{17}", "{3,40}"]
PATTERNS = st.recursive(
    st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)).map("".join), min_size=1)
    .map(lambda parts: parts[:5])
    .map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda t: f"(?:{t[0]}){t[1]}"),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=3,
)
SUBJECTS = st.text("aAbBé1 .\n\r\u2028\x85\x00\x0b", max_size=6) | st.sampled_from(
    [None, "a" * 40, "b" * 3_000 + "a", "ab" * 20 + "\r\n", "\x00" * 3, "é" * 5]
)


def _translatable(pattern: str) -> bool:
    try:
        translate(pattern)
    except SqlError:
        return False
    return True


@given(
    patterns=st.lists(PATTERNS, min_size=1, max_size=6),
    texts=st.lists(SUBJECTS, min_size=1, max_size=12),
)
@settings(max_examples=75, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_where_the_scan_is_exact_it_finds_what_the_pattern_does(
    patterns: list[str], texts: list[str | None]
) -> None:
    columns = Columns({"s": pa.array(texts, pa.string())})
    answers, failed = [], set()
    for exact in (True, False):
        options = Options(cache=False, exact_scan=exact, regex_timeout=0.02)
        conditions = {p: Predicate(S, "REGEXP", p) for p in patterns if _translatable(p)}
        rules = RuleSet.empty(options).change(conditions)
        found = rules.match(columns, len(texts))
        answers.append({(r, rules.ids[n]) for r, n in zip(found.rows, found.rules, strict=True)})
        failed |= {(row, name) for row, name, _ in found.errors}
    # What takes too long to be decided has no answer to compare with.
    assert answers[0] - failed == answers[1] - failed


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_the_scan_is_exact_for_many_patterns(every: int) -> None:
    """On all the recorded texts at once; what it decides alone is what is found there."""
    patterns = sorted({p for p, _, answer in JAVA if answer != "error" and p})[::every]
    texts = sorted({text for _, text, _ in JAVA if _is_valid(text)})
    columns = Columns({"s": pa.array(texts)})
    found = {}
    for exact in (True, False):
        rules = RuleSet.empty(Options(exact_scan=exact)).change(
            {p: Predicate(S, "REGEXP", p) for p in patterns}
        )
        matches = rules.match(columns, len(texts))
        found[exact] = (matches.rows.tolist(), matches.rules.tolist())
        assert (rules.counters.exact_hits > 10_000 // every) == exact
    assert found[True] == found[False]


def _is_valid(text: str) -> bool:
    return text.encode(errors="ignore").decode() == text


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_the_recorded_answers_are_those_of_java() -> None:
    lines = "".join(f"{_utf16(pattern)}\t{_utf16(text)}\n" for pattern, text, _ in JAVA)
    program = Path(__file__).parent / "JavaFind.java"
    ran = subprocess.run(
        ["java", str(program)], input=lines, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [answer for _, _, answer in JAVA]


def _utf16(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()


@pytest.mark.parametrize(
    ("operator", "value", "message"),
    [
        ("LIKE", ("a!", "!"), "invalid escape sequence in LIKE pattern 'a!'"),
        ("LIKE", ("!ab", "!"), "invalid escape sequence in LIKE pattern '!ab'"),
        ("LIKE", ("a", "!!"), "the escape of LIKE must be one character, not '!!'"),
        ("LIKE", ("a", ""), "the escape of LIKE must be one character, not ''"),
        ("REGEXP", "a(b", "invalid regular expression 'a(b'"),
        ("REGEXP", "a{2", "invalid regular expression 'a{2'"),
        ("REGEXP", "[b-a]", "invalid regular expression '[b-a]'"),
        ("CIDR_MATCH", "10.0.0/8", "invalid network '10.0.0/8'"),
        ("=", b"x", "the rule engine cannot compare with b'x'"),
        ("SOUNDS LIKE", "x", "the rule engine knows no predicate 'SOUNDS LIKE' on 's'"),
    ],
)
def test_bad_literals_are_found_when_the_rule_is_added(
    operator: str, value: object, message: str
) -> None:
    before = RuleSet.empty().change({"good": Predicate(S, "=", "a")})
    with pytest.raises(SqlError) as error:
        before.change({"bad": Predicate(S, operator, value)})
    assert error.value.message == message
    assert matching(before, ["a"]) == ["good"]


def test_what_is_not_translated_is_named() -> None:
    with pytest.raises(UnsupportedError, match="the flag U"):
        translate("(?U)x")


def matching(rules: RuleSet, texts: list[str | None]) -> list[str]:
    found = rules.match(Columns({"s": pa.array(texts, pa.string())}), len(texts))
    return [rules.ids[rule] for rule in found.rules.tolist()]


# Hyperscan cannot look behind, so it does not rule out what makes the exact pattern try all ways to
# cut the text.
SLOW = "^(?:a|aa|b)+(?<!a)$"
HARD: dict[str, Condition] = {
    "hard": Predicate(S, "REGEXP", SLOW),
    "not hard": Not(Predicate(S, "REGEXP", SLOW)),
    "plain": Predicate(S, "LIKE", ("%aaaaaaaa", None)),
}


@pytest.mark.parametrize("access", [True, False])
def test_a_pattern_that_takes_too_long_is_an_error_and_not_false(access: bool) -> None:
    rules = RuleSet.empty(Options(regex_timeout=0.02, access=access)).change(HARD)
    texts = ["aab", "a" * 50, None, "c"]
    found = rules.match(Columns({"s": pa.array(texts)}), len(texts))
    pairs = [
        (row, rules.ids[rule])
        for row, rule in zip(found.rows.tolist(), found.rules.tolist(), strict=True)
    ]
    assert pairs == [(0, "hard"), (1, "plain"), (3, "not hard")]
    reason = f"the regular expression '{SLOW}' took longer than 0.02 s"
    assert found.errors == [(1, "hard", reason), (1, "not hard", reason)]
    assert rules.counters.regex_timeouts == 1


def test_a_pattern_that_takes_too_long_again_and_again_is_given_up() -> None:
    rules = RuleSet.empty(Options(regex_timeout=0.02, regex_budget=0.05)).change(HARD)
    texts = ["aab", *("a" * (40 + n) for n in range(200))]
    begin = time.thread_time()
    found = rules.match(Columns({"s": pa.array(texts)}), len(texts))
    assert time.thread_time() - begin < 0.5
    assert found.given_up == {"hard", "not hard"}
    assert [row for row, name, _ in found.errors if name == "hard"] == list(range(1, 201))
    assert [
        row for row, rule in zip(found.rows, found.rules, strict=True) if rules.ids[rule] == "plain"
    ] == [*range(1, 201)]
    again = rules.match(Columns({"s": pa.array(["c", "aab"])}), 2)
    assert [rules.ids[rule] for rule in again.rules] == [
        "not hard",
        "hard",
    ]  # the second is remembered


def test_nested_repeats_are_decided_in_linear_time() -> None:
    pattern = Predicate(S, "REGEXP", "^(a+)+$")
    rules = RuleSet.empty(Options(cache=False)).change({"nested": pattern})
    assert matching(
        rules, ["a" * 5_000 + "!", "a" * 5_000 + "\n", "a" * 5_000 + "\n\n", "aé" * 3000]
    ) == ["nested"]
    assert rules.counters.regex_timeouts == 0
    assert rules.counters.linear_checks > 0


def test_false_and_error_is_false() -> None:
    hard = HARD["hard"]
    rules = RuleSet.empty(Options(regex_timeout=0.02)).change(
        {
            "and false": And((hard, Predicate(S, "=", "x"))),
            "or true": Or((hard, Predicate(S, "LIKE", ("a%", None)))),
            "and true": And((hard, Predicate(S, "LIKE", ("a%", None)))),
        }
    )
    found = rules.match(Columns({"s": pa.array(["a" * 50])}), 1)
    assert [rules.ids[r] for r in found.rules] == ["or true"]
    assert [name for _, name, _ in found.errors] == ["and true"]


ADDRESSES = [
    "10.1.2.3",
    "fe80::1%eth0",
    "::ffff:10.0.0.1",
    "10.0.0.256",
    "010.0.0.1",
    "",
    None,
    "10.1.2.3 ",
    "1",
    "::1",
]
NETWORKS = ["10.0.0.0/8", "fe80::/10", "10.1.2.3", "::/0", "0.0.0.0/0", "10.1.2.3/31"]


def test_networks_are_those_of_the_function() -> None:
    """A rule must mean what the scalar function means."""
    rules = RuleSet.empty().change({n: Predicate(S, "CIDR_MATCH", n) for n in NETWORKS})
    wanted = {(a, n) for a in ADDRESSES for n in NETWORKS if a is not None and cidr_contains(a, n)}
    found = rules.match(Columns({"s": pa.array(ADDRESSES)}), len(ADDRESSES))
    assert {
        (ADDRESSES[r], rules.ids[k]) for r, k in zip(found.rows, found.rules, strict=True)
    } == wanted
    assert len(wanted) == 14


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\u2028"])
def test_linear_time_finds_the_same(end: str) -> None:
    """Wherever RE2 is asked, whatever the text ends in."""
    asked = 0
    for pattern, text, answer in JAVA:
        if answer == "error":
            continue
        java, text = translate(pattern), text + end
        if texts := java.re2_texts(text):
            asked += 1
            found = pc.any(pc.match_substring_regex(pa.array(texts, pa.string()), java.re2)).as_py()
            assert found == (java.exact.search(text) is not None), (pattern, text)
    assert asked > len(JAVA) / 3


def test_the_function_means_what_java_says() -> None:
    for pattern, text, answer in JAVA:
        assert regexp_matches(text, pattern) == (answer == "true" and bool(pattern)), (
            pattern,
            text,
        )


TEXTS = st.lists(st.text("aAbBéÉßİſΣσ \n", max_size=4), min_size=1)


@given(texts=TEXTS, name=st.sampled_from(sorted(TRANSFORMS)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_derived_variables_are_those_of_the_functions(texts: list[str], name: str) -> None:
    kernel = {"LOWER": lower, "UPPER": upper, "TRIM": trim, "LTRIM": ltrim, "RTRIM": rtrim}[name]
    array = pa.array(texts)
    derived = Columns({"s": array}).texts(Variable("s", (name,)))
    values = Vector(kernel(KernelContext(len(texts), STRING, (STRING,)), array)).array(len(texts))
    assert [derived.values[code] for code in derived.codes] == values.to_pylist()
