"""From a definition with stand-ins to one that CloudFormation completes. Pure but for the token.

The definition becomes one `Fn::Sub`: each value that is known only to CloudFormation is written
once, as a variable, however often the definition names it. That keeps the template small, and
leaves the definition in it readable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk

from compilegate.errors import CompilegateError

LARGEST_DEFINITION = 1_048_576
"""How many characters CreatePipeline accepts; a template may have as many bytes."""


class DefinitionSizeError(CompilegateError):
    """A definition is larger than the service allows. The message says how large."""


def completed_by_cloudformation(
    text: str, *, stand_ins: Mapping[str, str], values: Mapping[str, str]
) -> str:
    """The definition as a token.

    `stand_ins` maps the name of each missing value to its stand-in in the text, `values` maps the
    same names to the real values: text, or CloudFormation tokens.
    """
    # Anything else that CloudFormation would take for a variable is plain text.
    text = text.replace("${", "${!")
    variables: dict[str, str] = {}
    for name, stand_in in stand_ins.items():
        value = values[name]
        if cdk.Token.is_unresolved(value):
            variable = _variable(name)
            if stand_in in text:
                variables[variable] = value
            value = f"${{{variable}}}"
        text = text.replace(stand_in, value)
    return cdk.Fn.sub(text, variables)


def _variable(name: str) -> str:
    """`images.training-compiler` as CloudFormation names variables: `ImagesTrainingCompiler`."""
    words = name.replace(".", "_").replace("-", "_").split("_")
    return "".join(word.capitalize() for word in words)


def check_size(workload: str, text: str) -> None:
    """Raises DefinitionSizeError for a definition that is too large for a template."""
    size = size_in_template(text)
    if size > LARGEST_DEFINITION:
        raise DefinitionSizeError(
            f"workloads/{workload}.toml: its definition takes {size:,} bytes of a template, "
            f"allowed: {LARGEST_DEFINITION:,}; declare fewer arms or seeds"
        )


def size_in_template(text: str) -> int:
    """Bytes of a definition as a string of a JSON template, where its quotes are escaped."""
    return len(json.dumps(text).encode())
