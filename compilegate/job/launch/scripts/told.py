"""What a script's process is told besides its arguments: its job, and where to import from.

The request describes the job in `JOB_VARIABLE`, as far as that is known when it is made. The
launcher adds the recipe, which is too long for a variable of a request.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, Sequence

from compilegate.job.launch.scripts.arguments import named
from compilegate.job.names import (
    ARGUMENTS_VARIABLE,
    ARM_HYPERPARAMETERS,
    GPUS,
    HYPERPARAMETERS_VARIABLE,
    JOB_VARIABLE,
    job_variable,
)

if TYPE_CHECKING:  # it imports numpy, and before a script's first line nothing may
    from compilegate.job.evidence import Scalar

_CONTINUED = re.compile(rf"{JOB_VARIABLE}_\d+")
"""What the script finds whole in `JOB_VARIABLE`."""
_LAUNCHERS_OWN = "training_script"
"""What SageMaker's launcher of PyTorch 1.10 starts."""
_TRUTHS = {"true": True, "false": False}


def hyperparameters(arguments: Sequence[str]) -> Dict[str, Scalar]:
    """The hyperparameters by declared name, with the values that were declared; without the number
    of GPUs, which is the machine's."""
    return {name: _scalar(value) for name, value in named(arguments) if name != GPUS}


def job_text(environment: Mapping[str, str]) -> str:
    """What a job is told, from one variable or several: the service limits how long one can be."""
    parts = (environment.get(job_variable(number)) or "" for number in itertools.count(1))
    return "".join(itertools.takewhile(bool, parts))


def recipe_by_toolkit(job: Mapping[str, Any], environment: Mapping[str, str]) -> Dict[str, Scalar]:
    """The hyperparameters of a script that SageMaker's own launcher started, as those of other
    scripts are told: by declared name, with what describes the arm."""
    given = json.loads(environment.get(HYPERPARAMETERS_VARIABLE) or "{}")
    renamed = json.loads(environment.get(ARGUMENTS_VARIABLE) or "{}")
    declared = {own: name for name, own in renamed.items() if isinstance(own, str)}
    return {
        **{
            declared.get(name, name): _scalar(value if isinstance(value, str) else str(value))
            for name, value in given.items()
            if declared.get(name, name) not in (_LAUNCHERS_OWN, GPUS)
        },
        **{name: job[name] for name in ARM_HYPERPARAMETERS if name in job},
    }


def script_environment(
    recipe: Mapping[str, Scalar], environment: Mapping[str, str]
) -> Dict[str, str]:
    """The launcher's environment, and in it what the script's process is told."""
    return {
        **{name: value for name, value in environment.items() if not _CONTINUED.fullmatch(name)},
        **_described(recipe, environment),
    }


def _described(recipe: Mapping[str, Scalar], environment: Mapping[str, str]) -> Dict[str, str]:
    """Nothing where the request describes no job: the script then runs as if by hand."""
    text = job_text(environment)
    if not text:
        return {}
    job: Dict[str, Any] = json.loads(text)
    return {JOB_VARIABLE: json.dumps({**job, "recipe": dict(recipe)})}


def _scalar(text: str) -> Scalar:
    """The value that was declared. The toolkit decodes JSON, and writes it as Python does."""
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    try:
        value = json.loads(text)
    except ValueError:
        return text
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    return value if finite else text
