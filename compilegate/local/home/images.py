"""Which Python environment stands for a container image.

An image is a folder with a requirements.txt. The interpreter that runs this program stands for it
when every requirement holds here; otherwise a virtual environment is built from the same file,
once, in the home.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from compilegate.local.algorithms.images import built_in_algorithm
from compilegate.local.errors import ImageEnvironmentError

HERE = "here"


@dataclass(frozen=True)
class ImageSources:
    """Where images come from: explicit patterns first, then a folder of image folders."""

    root: Path | None = None
    """Each subfolder with a requirements.txt is the image of that name."""
    patterns: tuple[tuple[str, str], ...] = ()
    """(fnmatch pattern of image URIs, "here" | folder with requirements.txt | python executable);
    the first that matches is taken."""


@dataclass(frozen=True)
class Environment:
    """A Python environment that stands for an image."""

    python: Path
    identity: str
    """Changes when the environment's content does: part of the step cache's key."""
    here: bool
    """Whether it is the running interpreter's own."""

    def first_unmet(self, requirements: Path) -> str | None:
        """The first line of a requirements.txt that does not hold in this environment."""
        return first_unmet(requirements, None if self.here else _package_folders(self.python))

    def has_module(self, name: str) -> bool:
        """Whether its interpreter finds a module of that name; nothing is imported."""
        question = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))"
        asked = [str(self.python), "-c", question, name]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class UnbuiltEnvironment:
    """A virtual environment to be made from a requirements.txt."""

    requirements: Path
    unmet: str
    """The first requirement that does not hold in the running interpreter."""


def find_image(image: str, sources: ImageSources) -> Environment | UnbuiltEnvironment:
    """The environment for an image URI.

    Raises ImageEnvironmentError, with the remedy, for an unknown one.
    """
    for pattern, target in sources.patterns:
        if fnmatchcase(image, pattern):
            return _from_target(image, target)
    name = repository_name(image)
    if sources.root is not None:
        requirements = sources.root / name / "requirements.txt"
        if requirements.is_file():
            return _from_requirements(requirements)
    algorithm = built_in_algorithm(image)
    if algorithm is not None and algorithm.program is not None:
        return _running_environment()
    where = f" and {sources.root} has no folder {name}" if sources.root else ""
    raise ImageEnvironmentError(
        f"image {image} is unknown: no pattern matches{where}; "
        f"name a Python environment for it, for example --image '*{name}*=here'"
    )


def repository_name(image: str) -> str:
    """The last part of an image URI's repository, without tag and digest."""
    return re.split(r"[:@]", image.rpartition("/")[2])[0]


def _from_target(image: str, target: str) -> Environment | UnbuiltEnvironment:
    if target == HERE:
        return _running_environment()
    path = Path(target).expanduser()
    if (path / "requirements.txt").is_file():
        return _from_requirements(path / "requirements.txt")
    if path.is_file():
        python = Path(path.parent.resolve() / path.name)
        return Environment(
            python, f"{python} {_digest_of_distributions(_package_folders(python))}", here=False
        )
    raise ImageEnvironmentError(
        f"image {image}: {target!r} is neither 'here', nor a folder with a requirements.txt, "
        f"nor a Python executable"
    )


def _from_requirements(requirements: Path) -> Environment | UnbuiltEnvironment:
    unmet = first_unmet(requirements)
    return _running_environment() if unmet is None else UnbuiltEnvironment(requirements, unmet)


def _running_environment() -> Environment:
    return Environment(Path(sys.executable), _running_identity(), here=True)


def _running_identity() -> str:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return f"{sys.executable} {platform.python_version()} {_digest_of_distributions(folders)}"


def _package_folders(python: Path) -> list[str]:
    return sorted(str(p) for p in python.parent.parent.glob("lib*/python3*/site-packages"))


def _digest_of_distributions(folders: Iterable[str]) -> str:
    names = sorted(
        path.name for folder in folders for path in Path(folder).glob("*.dist-info") if path.name
    )
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def first_unmet(requirements: Path, folders: Sequence[str] | None = None) -> str | None:
    """The first line of a requirements.txt that does not hold among the installed packages.

    `folders` are where packages are looked for; the running interpreter's own path by default.
    A line that cannot be judged here (an option, a URL, another file) counts as unmet.
    Raises ImageEnvironmentError when the file cannot be read.
    """
    try:
        lines = requirements.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImageEnvironmentError(f"{requirements} cannot be read: {error}") from error
    for line in lines:
        requirement = re.split(r"(?:^|\s)#", line)[0].strip()
        if requirement and not _holds(requirement, sys.path if folders is None else folders):
            return requirement
    return None


def _holds(requirement: str, folders: Sequence[str]) -> bool:
    from importlib import metadata  # noqa: PLC0415 - 20 ms that only some runs need

    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return False
    if parsed.marker is not None and not parsed.marker.evaluate():
        return True
    if parsed.url is not None:
        return False
    found = next(iter(metadata.distributions(name=parsed.name, path=list(folders))), None)
    return found is not None and parsed.specifier.contains(found.version, prereleases=True)


def build_environment(
    unbuilt: UnbuiltEnvironment, home: Path, on_building: Callable[[Path], None]
) -> Environment:
    """The virtual environment for a requirements.txt, built unless an earlier run has done so.

    `on_building` is told the log's path before a build. A lock makes concurrent executions build
    it once. It is built in its final place, because a virtual environment's scripts name their
    own path; a marker written last tells a whole one from a piece.
    Raises ImageEnvironmentError with the log's path when pip fails.
    """
    digest = _requirements_digest(unbuilt.requirements)
    folder = home / "environments" / digest
    marker = folder / "complete"
    python = folder / "bin" / "python"
    with _locked(home / "locks" / f"environment-{digest}.lock"):
        if not marker.is_file():
            log = home / "environments" / f"{digest}.log"
            on_building(log)
            shutil.rmtree(folder, ignore_errors=True)
            _build(unbuilt, folder, log)
            marker.touch()
    return Environment(python, digest, here=False)


def _requirements_digest(requirements: Path) -> str:
    content = f"{platform.python_version()} {sys.platform} {platform.machine()}\n".encode()
    return hashlib.sha256(content + requirements.read_bytes()).hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(unbuilt: UnbuiltEnvironment, folder: Path, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    commands = (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--no-input", "-r", str(unbuilt.requirements)],
    )
    with log.open("wb") as output:
        for command in commands:
            end = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
            if end.returncode != 0:
                raise ImageEnvironmentError(
                    f"the environment for {unbuilt.requirements} could not be built (here, "
                    f"{unbuilt.unmet!r} does not hold): see {log}"
                )


def unmet_requirement(requirements: Path, python: Path) -> str | None:
    """The first line of a requirements.txt that does not hold for this interpreter."""
    here = python == Path(sys.executable)
    return first_unmet(requirements, None if here else _package_folders(python))
