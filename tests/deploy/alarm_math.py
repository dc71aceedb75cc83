"""Whether an alarm is raised by what was measured: its statistic, its expression, its threshold.

Of CloudWatch's metric math only what the template uses is understood; anything else is an error. A metric that nobody measured
in a period has no value then, and neither has what is made of it, unless `FILL` gives it one
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Measured = Mapping[tuple[str, str], Sequence[float]]
"""What was measured in one period, by the metric's name and the resource in its dimension: each value by itself."""

Value = float | None

_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {"Sum": sum, "Minimum": min, "Maximum": max}
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}
_BREACHES = {"GreaterThanOrEqualToThreshold": operator.ge, "LessThanThreshold": operator.lt}


def is_raised(alarm: Mapping[str, Any], measured: Measured) -> bool:
    """Whether it is, once what was measured has been so for as long as the alarm looks back."""
    value = _value(alarm, measured)
    if value is None:
        return alarm["TreatMissingData"] == "breaching"
    return bool(_BREACHES[alarm["ComparisonOperator"]](value, float(alarm["Threshold"])))


def _value(alarm: Mapping[str, Any], measured: Measured) -> Value:
    if "Metrics" not in alarm:
        return _statistic(alarm, alarm["Statistic"], measured)
    named = {one["Id"]: one["MetricStat"] for one in alarm["Metrics"] if "MetricStat" in one}
    values = {name: _statistic(stat["Metric"], stat["Stat"], measured) for name, stat in named.items()}
    (expression,) = [one["Expression"] for one in alarm["Metrics"] if one["ReturnData"]]
    return evaluated(expression, values)


def _statistic(metric: Mapping[str, Any], statistic: str, measured: Measured) -> Value:
    (dimension,) = metric["Dimensions"]
    found = measured.get((metric["MetricName"], dimension["Value"]), ())
    return float(_STATISTICS[statistic](found)) if found else None


def evaluated(expression: str, values: Mapping[str, Value]) -> Value:
    """An expression's value; None where it has none."""
    text = re.sub(r"\b(AND|OR)\b", lambda word: word[0].lower(), expression)
    return _evaluated(ast.parse(text, mode="eval").body, values)


def _evaluated(node: ast.expr, values: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant(value=float() | int() as number):
            return float(number)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=how, right=right) | ast.Compare(left=left, ops=[how], comparators=[right]):
            return _of_all(_OPERATORS[type(how)], [_evaluated(one, values) for one in (left, right)])
        case ast.BoolOp(op=ast.And(), values=parts):
            return _of_all(lambda *found: all(found), [_evaluated(one, values) for one in parts])
        case ast.Call(func=ast.Name(id="FILL"), args=[filled, instead]):
            found = _evaluated(filled, values)
            return _evaluated(instead, values) if found is None else found
        case ast.Call(func=ast.Name(id="IF"), args=[condition, yes, no]):
            holds = _evaluated(condition, values)
            return None if holds is None else _evaluated(yes if holds else no, values)
        case ast.Call(func=ast.Name(id="MAX"), args=[ast.List(elts=listed)]):
            return _of_all(max, [_evaluated(one, values) for one in listed])
    raise NotImplementedError(ast.unparse(node))


def _of_all(how: Callable[..., Any], found: Sequence[Any]) -> Any:
    return None if None in found else float(how(*found))
