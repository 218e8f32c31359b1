"""Functions that give the head of a job's text. Planning answers them: each kernel is given what it
is to return."""

from __future__ import annotations

import json

import pyarrow as pa

from parser.types import STRING, array
from udf.registry import KernelContext, Values, function
from udf.signatures import always_nullable, never_null, takes, text

_TEXT = takes(text, result=always_nullable(STRING))
_TAGS = array(STRING.with_nullable(False))


@function("RULE_NAME", signature=_TEXT)
def rule_name(ctx: KernelContext, value: Values) -> Values:
    """RULE_NAME(): the name of the job whose statement this is; in `sql run` it is 'script'.

    >>> RULE_NAME()
    'windows.encoded'
    """
    return value


@function("RULE_TITLE", signature=_TEXT)
def rule_title(ctx: KernelContext, value: Values) -> Values:
    """RULE_TITLE(): the title in the head of the job's text; NULL without one.

    >>> RULE_TITLE()
    'Encoded PowerShell'
    """
    return value


@function("RULE_ID", signature=_TEXT)
def rule_id(ctx: KernelContext, value: Values) -> Values:
    """RULE_ID(): the `id` in the head of the job's text; NULL without one.

    >>> RULE_ID()
    'r-17'
    """
    return value


@function("RULE_SEVERITY", signature=_TEXT)
def rule_severity(ctx: KernelContext, value: Values) -> Values:
    """RULE_SEVERITY(): the severity in the head of the job's text, such as 'high'; NULL without
    one.

    >>> RULE_SEVERITY()
    'high'
    """
    return value


@function("RULE_OWNER", signature=_TEXT)
def rule_owner(ctx: KernelContext, value: Values) -> Values:
    """RULE_OWNER(): the owner in the head of the job's text; NULL without one.

    >>> RULE_OWNER()
    'blue team'
    """
    return value


@function("RULE_DESCRIPTION", signature=_TEXT)
def rule_description(ctx: KernelContext, value: Values) -> Values:
    """RULE_DESCRIPTION(): the description in the head of the job's text; NULL without one.

    >>> RULE_DESCRIPTION()
    'It hides what it does.'
    """
    return value


@function("RULE_TAGS", signature=takes(text, result=never_null(_TAGS)))
def rule_tags(ctx: KernelContext, value: Values) -> Values:
    """RULE_TAGS(): the tags in the head of the job's text, such as 'attack.t1059.001'.

    >>> RULE_TAGS()
    ['attack.execution', 'attack.t1059.001']
    """
    kind = pa.list_(pa.string())
    if isinstance(value, pa.Scalar):
        return pa.scalar(json.loads(value.as_py()), kind)
    return pa.array([json.loads(v) for v in value.to_pylist()], kind)


@function("RULE_ATTRIBUTE", signature=takes(text, text, result=always_nullable(STRING)))
def rule_attribute(ctx: KernelContext, key: Values, value: Values) -> Values:
    """RULE_ATTRIBUTE(key): what the head of the job's text has under `attributes` for this key;
    NULL without one.

    >>> RULE_ATTRIBUTE('playbook')
    'PB-17'
    """
    return value
