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
"""Characters that CreatePipeline takes; a template may have as many bytes."""


class DefinitionSizeError(CompilegateError):
    """A definition is larger than the service takes. The message says how large."""


def completed_by_cloudformation(
    text: str, *, stand_ins: Mapping[str, str], values: Mapping[str, str]
) -> str:
    """The definition as a token.

    `stand_ins` maps the name of what is missing to what stands for it in the text, `values` the
    same names to what it really is: text, or a CloudFormation token.
    """
    # Whatever looks like a variable to CloudFormation, and is none of ours, is text.
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
    """Raises DefinitionSizeError for a definition that neither the service nor a template takes."""
    size = size_in_template(text)
    if size > LARGEST_DEFINITION:
        raise DefinitionSizeError(
            f"workloads/{workload}.toml: its definition takes {size:,} bytes of a template, "
            f"allowed: {LARGEST_DEFINITION:,}; declare fewer arms or seeds"
        )


def size_in_template(text: str) -> int:
    """Bytes of a definition as a string of a JSON template, where its quotes are escaped."""
    return len(json.dumps(text).encode())
