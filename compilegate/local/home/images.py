"""Which Python environment stands for a container image.

An image is a folder with a requirements.txt. The interpreter that runs this program stands for it
when every requirement holds here; otherwise a virtual environment is built from the same file,
once, in the home.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from compilegate.job.files import lock
from compilegate.local.errors import ImageEnvironmentError
from compilegate.local.xgboost import XGBOOST, algorithm_of

HERE = "here"
_HERE = Path(sys.executable)
_INTERPRETER = f"{platform.python_implementation()} {platform.python_version()} {sys.platform} " + (
    platform.machine()
)


@dataclass(frozen=True)
class ImageSources:
    """Sources of images: explicit patterns first, then a folder of image folders."""

    root: Path | None = None
    """Each subfolder with a requirements.txt is the image of that name."""
    patterns: tuple[tuple[str, str], ...] = ()
    """(fnmatch pattern of image URIs, "here" | folder with requirements.txt | python executable);
    the first that matches is taken."""


@dataclass(frozen=True)
class Environment:
    """A Python environment that stands for an image."""

    python: Path
    here: bool
    interpreter: str
    requirements: Path | None = None
    """What the image asks for; None where nothing says what of its packages jobs need."""

    @property
    def identity(self) -> str:
        """Changes with anything that is installed, as what pip installs on top of it does."""
        found = {
            path.name
            for each in _package_folders(self.python)
            for path in Path(each).glob("*.dist-info")
        }
        return f"{self.interpreter} {_digest(found)}"

    def closure(self, *own: str) -> str:
        """Changes with what a result depends on: the interpreter, and the packages that the image
        and the texts `own` of other requirements.txt ask for, with all that these need. What else
        is installed beside them changes no result. Without an image's requirements, everything
        counts."""
        if self.requirements is None:
            return self.identity
        texts = (self.requirements.read_text(encoding="utf-8"), *own)
        lines = tuple(line for text in texts for line in _requirements(text))
        return (
            f"{self.interpreter} {_digest(_closure(lines, tuple(_package_folders(self.python))))}"
        )

    def has_module(self, name: str) -> bool:
        """Whether its interpreter finds a module of that name; nothing is imported."""
        question = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))"
        command = [str(self.python), "-c", question, name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class UnbuiltEnvironment:
    """A virtual environment to be made from a requirements.txt."""

    requirements: Path
    unmet: str
    """The first requirement that does not hold in the running interpreter."""


def find_image(image: str, sources: ImageSources) -> Environment | UnbuiltEnvironment:
    """The environment for an image URI. Raises ImageEnvironmentError, with the remedy, for an
    unknown one."""
    for pattern, target in sources.patterns:
        if fnmatchcase(image, pattern):
            return _from_target(image, target)
    name = repository_name(image)
    if sources.root is not None and (sources.root / name / "requirements.txt").is_file():
        return _from_requirements(sources.root / name / "requirements.txt")
    if algorithm_of(image) == XGBOOST:
        return _running_environment(None)
    where = f" and {sources.root} has no folder {name}" if sources.root else ""
    raise ImageEnvironmentError(
        f"no Python environment is named for the image {image}: no pattern "
        f"matches{where}; name one, for example --image '*{name}*=here'"
    )


def repository_name(image: str) -> str:
    return re.split(r"[:@]", image.rpartition("/")[2])[0]


def _from_target(image: str, target: str) -> Environment | UnbuiltEnvironment:
    if target == HERE:
        return _running_environment(None)
    path = Path(target).expanduser()
    if (path / "requirements.txt").is_file():
        return _from_requirements(path / "requirements.txt")
    if path.is_file():
        python = Path(path.parent.resolve() / path.name)
        return Environment(python, here=False, interpreter=str(python))
    raise ImageEnvironmentError(
        f"image {image}: {target!r} is neither 'here', nor a folder with a requirements.txt, "
        f"nor a Python executable"
    )


def _from_requirements(requirements: Path) -> Environment | UnbuiltEnvironment:
    unmet = first_unmet(requirements)
    here = _running_environment(requirements)
    return here if unmet is None else UnbuiltEnvironment(requirements, unmet)


def _running_environment(requirements: Path | None) -> Environment:
    return Environment(_HERE, True, _INTERPRETER, requirements)


def _package_folders(python: Path) -> Sequence[str]:
    """Where an interpreter finds its packages."""
    if python == _HERE:
        return sys.path
    return sorted(str(p) for p in python.parent.parent.glob("lib*/python3*/site-packages"))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _parsed(line: str) -> Requirement | None:
    """A line of a requirements.txt; None where it is an option, or another file."""
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def _distribution(name: str, folders: Sequence[str]) -> metadata.Distribution | None:
    return next(iter(metadata.distributions(name=name, path=list(folders))), None)


@functools.lru_cache(maxsize=64)
def _closure(lines: tuple[str, ...], folders: tuple[str, ...]) -> set[str]:
    """`name==version` of each package that requirement lines ask for, and of all that these need
    here; a line that cannot be judged, or is not met, stands for itself."""
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(line, "") for line in lines]
    while waiting:
        line, extra = waiting.pop()
        wanted = _parsed(line)
        if wanted is None:
            found.add(line)
            continue
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        unwanted = wanted.marker is not None and not wanted.marker.evaluate({"extra": extra})
        if unwanted or (name, extras) in seen:
            continue
        seen.add((name, extras))
        package = _distribution(name, folders)
        if package is None:
            found.add(line)
            continue
        found.add(f"{name}=={package.version}")
        waiting += [(need, each) for need in package.requires or () for each in ("", *extras)]
    return found


def first_unmet(requirements: Path, python: Path = _HERE) -> str | None:
    """The first line of a requirements.txt that does not hold for this interpreter.

    A line that cannot be judged here (an option, a URL, another file) counts as unmet.
    Raises ImageEnvironmentError when the file cannot be read.
    """
    try:
        text = requirements.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImageEnvironmentError(f"{requirements} cannot be read: {error}") from error
    folders = _package_folders(python)
    return next((line for line in _requirements(text) if not _holds(line, folders)), None)


def _requirements(text: str) -> list[str]:
    lines = (re.split(r"(?:^|\s)#", line)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _holds(line: str, folders: Sequence[str]) -> bool:
    wanted = _parsed(line)
    if wanted is None:
        return False
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    found = None if wanted.url is not None else _distribution(wanted.name, folders)
    return found is not None and wanted.specifier.contains(found.version, prereleases=True)


def build_environment(
    unbuilt: UnbuiltEnvironment, home: Path, on_building: Callable[[Path], None]
) -> Environment:
    """The virtual environment for a requirements.txt, built unless an earlier run has done so.

    `on_building` gets the log's path before a build. A lock makes concurrent executions build
    it once. It is built in its final place, because a virtual environment's scripts name their
    own path; a marker written last tells a whole one from a piece.
    Raises ImageEnvironmentError with the log's path when pip fails.
    """
    content = f"{_INTERPRETER}\n".encode() + unbuilt.requirements.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    folder = home / "environments" / digest
    marker, python = folder / "complete", folder / "bin" / "python"
    with lock(home / "locks" / f"environment-{digest}.lock"):
        if not marker.is_file():
            log = home / "environments" / f"{digest}.log"
            on_building(log)
            shutil.rmtree(folder, ignore_errors=True)
            _build(unbuilt, folder, log)
            marker.touch()
    return Environment(python, False, _INTERPRETER, unbuilt.requirements)


def _build(unbuilt: UnbuiltEnvironment, folder: Path, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    install = [*pip, "--no-input", "-r", str(unbuilt.requirements)]
    with log.open("wb") as output:
        for command in ([sys.executable, "-m", "venv", str(folder)], install):
            end = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
            if end.returncode != 0:
                raise ImageEnvironmentError(
                    f"the environment for {unbuilt.requirements} could not be built (this "
                    f"one does not satisfy {unbuilt.unmet!r}): see {log}"
                )
