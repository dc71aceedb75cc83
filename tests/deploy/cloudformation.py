"""The template as CloudFormation sees it: transformed by SAM, with parameters given and functions resolved.

Only what the template uses is understood; anything else is an error, so that nothing is read as what it is not.
Names that AWS makes up when it creates a resource stand as `<Resource>` or `<Resource.Attribute>`.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATE = REPOSITORY / "template.yaml"
PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::StackName": "shop",
    "AWS::URLSuffix": "amazonaws.com",
}

os.environ.setdefault("AWS_DEFAULT_REGION", PSEUDO["AWS::Region"])

from samtranslator.translator.transform import transform  # noqa: E402 (asks for a region when imported)
from samtranslator.yaml_helper import yaml_parse  # noqa: E402


class _NoValue:
    """What `AWS::NoValue` resolves to: the entry that it stands in is left out."""


NO_VALUE = _NoValue()


class _NoManagedPolicies:
    def load(self) -> dict[str, str]:
        return {}


def source() -> dict[str, Any]:
    """The template as it is written, short forms of functions made long."""
    return yaml_parse(TEMPLATE.read_text())


def transformed(template: Mapping[str, Any]) -> dict[str, Any]:
    """The same after SAM: no resource of its own is left, and what all functions share stands in each."""
    template = copy.deepcopy(dict(template))
    template["Globals"]["Function"]["CodeUri"] = "s3://artifacts/what-sam-build-made"
    return transform(template, {}, _NoManagedPolicies())


@dataclass(frozen=True)
class Stack:
    """A template deployed with these parameters."""

    template: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """All that would exist, resolved."""
        found = self.template["Resources"].items()
        return {name: self.resolve(one) for name, one in found if self.holds(one.get("Condition"))}

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: one for name, one in self.resources.items() if one["Type"] == kind}

    def properties(self, name: str) -> dict[str, Any]:
        return self.resources[name].get("Properties", {})

    def parameter(self, name: str) -> str:
        if name in self.given:
            return self.given[name]
        return str(self.template["Parameters"][name]["Default"])

    def listed(self, name: str) -> list[str]:
        """The values of a parameter that is a list."""
        return [one for one in _values(self.template["Parameters"][name], self.parameter(name)) if one]

    def holds(self, condition: str | None) -> bool:
        return condition is None or self._logic(self.template["Conditions"][condition])

    def broken_rules(self) -> list[str]:
        """What CloudFormation would say before it does anything."""
        said = []
        for rule in self.template["Rules"].values():
            if "RuleCondition" in rule and not self._logic(rule["RuleCondition"]):
                continue
            said += [one["AssertDescription"] for one in rule["Assertions"] if not self._logic(one["Assert"])]
        return said

    def refused_parameters(self) -> list[str]:
        """Given values that their parameters' declarations refuse."""
        return [name for name, value in self.given.items() if not self.accepts(name, value)]

    def accepts(self, name: str, value: str) -> bool:
        """Whether a parameter's declaration takes this value: of a list, each of its values."""
        parameter = self.template["Parameters"][name]
        return all(_allowed(parameter, one) for one in _values(parameter, value))

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [one for one in map(self.resolve, value) if one is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and (name := next(iter(value))) in ("Ref", "Fn::GetAtt") or _is_function(value):
            name, argument = next(iter(value.items()))
            return self._function(name, argument)
        resolved = {key: self.resolve(one) for key, one in value.items()}
        return {key: one for key, one in resolved.items() if one is not NO_VALUE}

    def _function(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._ref(argument)
            case "Fn::GetAtt":
                path = argument if isinstance(argument, str) else ".".join(argument)
                return f"<{path}>"
            case "Fn::If":
                condition, yes, no = argument
                return self.resolve(yes if self.holds(condition) else no)
            case "Fn::Sub":
                return self._sub(argument)
            case "Fn::Join":
                return argument[0].join(self.resolve(argument[1]))
            case "Fn::Split":
                return self.resolve(argument[1]).split(argument[0])
            case "Fn::Select":
                return self.resolve(argument[1])[int(argument[0])]
        raise NotImplementedError(name)

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.template["Parameters"]:
            values = _values(self.template["Parameters"][name], self.parameter(name))
            return values if _is_list(self.template["Parameters"][name]) else values[0]
        if name in self.template["Resources"]:
            return f"<{name}>"
        raise KeyError(f"Ref {name}")

    def _sub(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        own = {name: self.resolve(value) for name, value in own.items()}

        def replaced(found: re.Match[str]) -> str:
            name = found[1]
            if name in own:
                return own[name]
            return f"<{name}>" if "." in name else self._ref(name)

        return re.sub(r"\$\{([A-Za-z0-9:.]+)\}", replaced, text)

    def _logic(self, value: Any) -> bool:
        name, argument = next(iter(value.items()))
        match name:
            case "Condition":
                return self.holds(argument)
            case "Fn::Equals":
                return str(self.resolve(argument[0])) == str(self.resolve(argument[1]))
            case "Fn::Not":
                return not self._logic(argument[0])
            case "Fn::And":
                return all(map(self._logic, argument))
            case "Fn::Or":
                return any(map(self._logic, argument))
        raise NotImplementedError(name)


def _is_function(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("Fn::")


def _is_list(parameter: Mapping[str, Any]) -> bool:
    return parameter["Type"] == "CommaDelimitedList"


def _values(parameter: Mapping[str, Any], value: str) -> list[str]:
    """One, or those of a list. An empty list has one value, which is empty."""
    return [one.strip() for one in value.split(",")] if _is_list(parameter) else [value]


def _allowed(parameter: Mapping[str, Any], value: str) -> bool:
    if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
        return False
    if parameter["Type"] == "Number":
        number = float(value)
        return parameter.get("MinValue", number) <= number <= parameter.get("MaxValue", number)
    if len(value) > parameter.get("MaxLength", len(value)):
        return False
    return re.search(parameter.get("AllowedPattern", ""), value) is not None
