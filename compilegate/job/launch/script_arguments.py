"""What a training script's process gets: the description of its job, and its own arguments.

The request describes the job in `JOB_VARIABLE`; the launcher adds the recipe, which is too long for
a request. SageMaker passes hyperparameters as `--name value` by declared names;
`[program.arguments]` and `argument_style` say what the script gets instead.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from compilegate.job import contract

if TYPE_CHECKING:
    from compilegate.job.evidence import Scalar

_CONTINUED = re.compile(rf"{contract.JOB_VARIABLE}_\d+")
_LAUNCHERS_OWN = "training_script"  # names the script for SageMaker's launcher of PyTorch 1.10


def job_text(environment: Mapping[str, str]) -> str:
    """The job's description as JSON, from one variable or several, since the service limits their
    length. Empty where there is no job."""
    parts = (environment.get(contract.job_variable(number)) or "" for number in itertools.count(1))
    return "".join(itertools.takewhile(bool, parts))


def script_environment(
    recipe: Mapping[str, Scalar], environment: Mapping[str, str]
) -> dict[str, str]:
    """The launcher's environment, with the whole description of the job in `JOB_VARIABLE`."""
    found = {name: value for name, value in environment.items() if not _CONTINUED.fullmatch(name)}
    text = job_text(environment)
    if text:
        found[contract.JOB_VARIABLE] = json.dumps({**json.loads(text), "recipe": dict(recipe)})
    return found


def hyperparameters(arguments: Sequence[str]) -> dict[str, Scalar]:
    """The hyperparameters by declared name; without the number of GPUs, which is the machine's."""
    return {name: _scalar(value) for name, value in _named(arguments) if name != contract.GPUS}


def recipe_by_toolkit(job: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Scalar]:
    """The same for a script that SageMaker's own launcher started, with what describes the arm."""
    given = json.loads(environment.get(contract.HYPERPARAMETERS_VARIABLE) or "{}")
    renamed = json.loads(environment.get(contract.ARGUMENTS_VARIABLE) or "{}")
    declared = {own: name for name, own in renamed.items() if isinstance(own, str)}
    recipe = {
        declared.get(name, name): _scalar(value if isinstance(value, str) else str(value))
        for name, value in given.items()
    }
    for name in (_LAUNCHERS_OWN, contract.GPUS):
        recipe.pop(name, None)
    return {**recipe, **{name: job[name] for name in contract.ARM_HYPERPARAMETERS if name in job}}


def script_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    table = json.loads(environment.get(contract.ARGUMENTS_VARIABLE) or "null")
    style = environment.get(contract.ARGUMENT_STYLE_VARIABLE, contract.ARGUMENT_STYLES[0])
    found: list[str] = []
    for name, value in _named(arguments):
        own = name
        if table is not None and name in table:
            own = table[name]
        elif table is not None and name in contract.ARM_HYPERPARAMETERS:
            continue
        # A list of words stands for name and value.
        found += _argument(own, value, style) if isinstance(own, str) else own
    return found


def _named(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each hyperparameter as (declared name, value); the toolkit writes a single letter `-n`."""
    for name, value in zip(arguments[::2], arguments[1::2]):
        yield name.lstrip("-"), value


def _argument(name: str, value: str, style: str) -> list[str]:
    """One argument in one of ARGUMENT_STYLES, as words of a command line."""
    if style == "name=value":
        return [f"{name}={value}"]
    name = f"-{name}" if len(name) == 1 else f"--{name}"
    return [f"{name}={value}"] if style == "--name=value" else [name, value]


def _scalar(text: str) -> Scalar:
    """The value that was declared. The toolkit decodes JSON, and writes it as Python does."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    return value if finite else text
