"""Are a workload's own metric functions there where the gate will run? Asked before any training.

They are loaded by another process, as the gate's job loads them: from its program's zip and the
installed packages, and not from wherever this process was started. What they import must come with
that zip too, or with a package that the gate's image has.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from compilegate.built_in import PACKAGE_FOLDER
from compilegate.errors import CompilegateError
from compilegate.pipelines.staging.source_tree import SourceTree
from compilegate.workload import Workload

SECONDS = 120
_AS_IN_THE_GATE = (
    "import runpy, sys; code, project = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path[:] = [code] + [place for place in sys.path if place != project]; "
    "runpy.run_module('compilegate.gate.function_check', run_name='__main__', "
    "alter_sys=True)"
)


class MetricFunctionsError(CompilegateError):
    """Functions that the gate could not load: a sentence each, with the key and the remedy."""


def check_metric_functions(workload: Workload, gate: SourceTree, requirements: Path | None) -> None:
    """Load every metric function of the workload from the gate's program.

    `requirements` is the gate image's requirements.txt, or None where it is not known; then it is
    not asked whether the image has what the functions import. Raises MetricFunctionsError.
    """
    functions = {
        name: guard.function
        for name, guard in workload.gate.metrics.items()
        if guard.function is not None
    }
    if not functions:
        return
    loaded = _loaded(sorted(set(functions.values())), gate)
    errors: Mapping[str, str] = loaded["errors"]
    remedy = (
        "list its file or package in gate.code, or its distribution in the requirements.txt of "
        "the gate's image"
    )
    problems = [
        f"gate.metrics.{name}.function: {errors[function]}; {remedy}"
        for name, function in functions.items()
        if function in errors
    ]
    if not problems and requirements is not None:
        problems = _missing_from_image(loaded["modules"], requirements)
    if problems:
        raise MetricFunctionsError(*problems)


def _loaded(functions: list[str], gate: SourceTree) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="compilegate-functions-") as work:
        code = Path(work) / "code.zip"
        code.write_bytes(gate.module_zip())
        command = [sys.executable, "-I", "-c", _AS_IN_THE_GATE, str(code), str(PACKAGE_FOLDER)]
        try:
            done = subprocess.run(
                [*command, *functions],
                cwd=work,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise MetricFunctionsError(
                f"gate.metrics: importing the functions took more than {SECONDS} seconds"
            ) from error
    if done.returncode != 0 or not done.stdout:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise MetricFunctionsError(
            f"gate.metrics: importing {', '.join(functions)} ended the process: {last}"
        )
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer


def _missing_from_image(modules: Iterable[str], requirements: Path) -> list[str]:
    """A sentence for each imported distribution that the image's requirements do not bring."""
    there = _with_dependencies(_required(requirements)) | {"compilegate"}
    distributions = metadata.packages_distributions()
    missing = {
        canonicalize_name(distribution): module
        for module in sorted(modules)
        for distribution in distributions.get(module, [])
        if canonicalize_name(distribution) not in there
    }
    # What comes along with another one that is missing needs no line of its own.
    brought = {need for name in missing for need in _with_dependencies({name}) - {name}}
    return [
        f"gate.metrics: the functions import {module}, which the gate's image does not have; add "
        f"{name} to {requirements}"
        for name, module in missing.items()
        if name not in brought
    ]


def _required(requirements: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    return _names(line for line in lines if line)


def _with_dependencies(names: set[str]) -> set[str]:
    known: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        known.add(name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # not installed here, so nothing here came from it
            continue
        left |= _names(need for need in needs if not re.search(r"extra\s*==", need)) - known
    return known


def _names(requirements: Iterable[str]) -> set[str]:
    names = set()
    for text in requirements:
        try:
            names.add(str(canonicalize_name(Requirement(text).name)))
        except InvalidRequirement:  # an option or an address: no distribution that has a name
            continue
    return names
