"""The values of a definition's parameters in one execution. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compilegate.document.model import Parameter, Scalar, matches


def parameter_values(
    declared: Sequence[Parameter], given: Mapping[str, Scalar]
) -> tuple[dict[str, Scalar], list[str]]:
    """Every declared parameter's value, and one sentence for each that has none or a wrong one.

    Text for a number or boolean is read as one, since that is how a command line gives it.
    """
    values: dict[str, Scalar] = {}
    faults: list[str] = []
    by_name = {parameter.name: parameter for parameter in declared}
    for name in given:
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            faults.append(f"parameter {name} is not declared; declared are: {known}")
    for name, parameter in by_name.items():
        value = given.get(name, parameter.default)
        if value is None:
            faults.append(f"parameter {name} ({parameter.type}) has no default and was not given")
            continue
        converted = _converted(value, parameter.type)
        if converted is None:
            faults.append(f"parameter {name} is {value!r}, expected a value of {parameter.type}")
        elif parameter.allowed is not None and converted not in parameter.allowed:
            allowed = ", ".join(map(str, parameter.allowed))
            faults.append(f"parameter {name} is {converted!r}, allowed are {allowed}")
        else:
            values[name] = converted
    return values, faults


def _converted(value: Scalar, parameter_type: str) -> Scalar | None:
    if isinstance(value, str) and parameter_type != "String":
        return _parsed(value, parameter_type)
    return value if matches(value, parameter_type) else None


def _parsed(text: str, parameter_type: str) -> Scalar | None:
    if parameter_type == "Boolean":
        return {"true": True, "false": False}.get(text.lower())
    try:
        return int(text) if parameter_type == "Integer" else float(text)
    except ValueError:
        return None
