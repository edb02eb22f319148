"""What a workload's own code needs in its images, found before anything is trained.

No job installs anything when it starts: what a program's `requirements.txt` asks for is in its
images, and what metric functions import is in the gate's program or image.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from compilegate.built_in import PACKAGE_FOLDER
from compilegate.errors import CompilegateError
from compilegate.pipelines.staging.source_trees import SourceTree
from compilegate.workload import Workload

REQUIREMENTS = "requirements.txt"
MOST_FILES = 500
MOST_BYTES = 1 << 20
"""A larger file is no training script."""
FUNCTION_SECONDS = 120


class RequirementsError(CompilegateError):
    """A requirements.txt cannot be used, or an image lacks what it asks for."""


class MetricFunctionsError(CompilegateError):
    """Functions that the gate could not load: a sentence each, with the key and the remedy."""


def read_requirements(path: Path) -> list[Requirement]:
    """The packages that a requirements.txt asks for. Raises RequirementsError for a line that is
    more than a package and its versions: an option, an address, another file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequirementsError(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        text = re.split(r"(?:^|\s)#", line)[0].strip()
        if not text:
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url is not None:
            raise RequirementsError(
                f"{path}, line {number}: found {text!r}, allowed: a package and its versions, as "
                "in 'pandas>=2,<3'; write anything else into the Dockerfile of an image folder"
            )
        found.append(requirement)
    return found


def unbuilt_requirements(workload: Workload, folder: Path, containers: Path) -> Iterator[str]:
    """A sentence for each image that lacks a package that the program asks for, where the workload
    says that they are in its images. `folder` is that of the workload's file."""
    source = workload.kind.source_folder
    if source is None or not workload.kind.requirements_in_image:
        return
    path = folder / source / REQUIREMENTS
    wanted = read_requirements(path) if path.is_file() else []
    for image, key in _program_images(workload).items():
        built = containers / image / REQUIREMENTS
        has = {_normal(each) for each in read_requirements(built)} if built.is_file() else set()
        for each in wanted:
            if _normal(each) not in has:
                yield (
                    f"program.requirements_in_image is true, and the image {image!r} of {key} "
                    f"lacks {str(each)!r} of {path}, allowed: that line in {built}"
                )
                break


def _program_images(workload: Workload) -> dict[str, str]:
    """The image folders that run a workload's own program, each with a key that names it."""
    used: dict[str, str] = {}
    key, image = workload.kind.processing_image
    if workload.kind.preparation is not None:
        used[image] = key
    for name, arm in workload.arms.items():
        used.setdefault(arm.image_folder, f"arms.{name}.image")
    return used


def _normal(requirement: Requirement) -> str:
    """The same for two ways to write one requirement."""
    extras = ",".join(sorted(requirement.extras))
    name = canonicalize_name(requirement.name)
    return f"{name}[{extras}]{requirement.specifier};{requirement.marker or ''}"


def imported_libraries(workload: Workload, path: Path) -> frozenset[str]:
    """The top-level names that the training script and the files beside it import, read without
    running them; none where the program cannot be read, which `validate` reports."""
    root = source_folder_of(workload, path)
    if root is None:
        return frozenset()
    files: dict[str, bytes] = {}
    try:
        for each in sorted(root.rglob("*.py"))[:MOST_FILES]:
            if each.is_file() and each.stat().st_size <= MOST_BYTES:
                files[each.relative_to(root).as_posix()] = each.read_bytes()
    except OSError:
        return frozenset()
    entry = workload.kind.scripts["program.entry"]
    return imported_modules(files, entry) if entry in files else frozenset()


def source_folder_of(workload: Workload, path: Path) -> Path | None:
    """The folder of the program of the workload in the file `path`; None for the built-in one."""
    folder = workload.kind.source_folder
    return None if folder is None else path.parent / folder


def imported_modules(files: Mapping[str, bytes], script: str) -> frozenset[str]:
    """The top-level names that the script imports, and the files beside it for it.

    `files` are the program's, by path; `script` is one of them. A file that is no Python imports
    nothing: the job will say what is wrong with it.
    """
    found: set[str] = set()
    read: set[str] = set()
    ahead = [script]
    while ahead:
        path = ahead.pop()
        if path in read:
            continue
        read.add(path)
        for name in _imports(files[path]):
            own = [each for each in _own_files(name, path) if each in files]
            ahead += own
            if not own:
                found.add(name.partition(".")[0])
    return frozenset(found - {""})


def _imports(source: bytes) -> Iterator[str]:
    """Full names of modules; a relative one begins with a dot."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            for each in node.names:  # each may be a module of the package, or a name in it
                yield ("." if node.level else "") + module + each.name


def _own_files(name: str, importer: str) -> Iterator[str]:
    """Where a module of the program may lie: beside the importing file, or at the root, from which
    scripts are started; also the packages on the way to it."""
    parts = [part for part in name.split(".") if part]
    for root in {PurePosixPath(importer).parent, PurePosixPath()}:
        for length in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:length])
            yield f"{place}.py"
            yield f"{place}/__init__.py"


_AS_IN_THE_GATE = (
    "import runpy, sys; code, project = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path[:] = [code] + [place for place in sys.path if place != project]; "
    "runpy.run_module('compilegate.gate.function_check', run_name='__main__', "
    "alter_sys=True)"
)


def check_metric_functions(workload: Workload, gate: SourceTree, requirements: Path | None) -> None:
    """Load every metric function of the workload as the gate's job does: in another process, from
    the gate's program and the installed packages.

    `requirements` is the gate image's requirements.txt; without it, nothing is checked of what the
    image has. Raises MetricFunctionsError.
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
    problems = [
        f"gate.metrics.{name}.function: {errors[function]}; list its file or package in gate.code, "
        "or its distribution in the requirements.txt of the gate's image"
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
                timeout=FUNCTION_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise MetricFunctionsError(
                f"gate.metrics: importing the functions took more than {FUNCTION_SECONDS} seconds"
            ) from error
    if done.returncode != 0 or not done.stdout:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise MetricFunctionsError(
            f"gate.metrics: importing {', '.join(functions)} ended the process: {last}"
        )
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer


def _missing_from_image(modules: Iterable[str], requirements: Path) -> list[str]:
    """A sentence for each imported distribution that the image's requirements do not bring."""
    listed = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    has = _with_dependencies(_names(line for line in listed if line)) | {"compilegate"}
    distributions = metadata.packages_distributions()
    missing = {
        canonicalize_name(distribution): module
        for module in sorted(modules)
        for distribution in distributions.get(module, [])
        if canonicalize_name(distribution) not in has
    }
    # What comes along with another one that is missing needs no line of its own.
    brought = {need for name in missing for need in _with_dependencies({name}) - {name}}
    return [
        f"gate.metrics: the functions import {module}, which the gate's image does not have; add "
        f"{name} to {requirements}"
        for name, module in missing.items()
        if name not in brought
    ]


def _with_dependencies(names: Iterable[str]) -> set[str]:
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
