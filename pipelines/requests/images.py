"""Which image an arm's jobs run in.

What the project's own training program needs of an image. Pure.

`training/` is PyTorch, for Python 3.9 and PyTorch 1.13 and newer, beside Hugging Face Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compilegate.catalog import Finding
from compilegate.catalog.compilers import Stack, compilers
from compilegate.catalog.findings import refusal
from compilegate.catalog.images import UnknownImageError
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Deployment
from compilegate.workload import Arm, Program
from compilegate.workload.arm import AWS_IMAGE

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (1, 13)


def program_findings(stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
    """Why the program cannot run in the image of a stack; `as_it_is` with nothing added to it."""
    python = stack.image.python
    if stack.framework != "pytorch":
        yield refusal(
            "version",
            f"the project's own training program is written for PyTorch, not {stack.label}",
            "take a PyTorch stack, or bring a training program of your own",
        )
    elif _numbers(stack.version) < OLDEST_TORCH or (
        python is not None and _numbers(python) < OLDEST_PYTHON
    ):
        yield refusal(
            "version",
            f"the project's own training program needs Python {_dotted(OLDEST_PYTHON)} and PyTorch "
            f"{_dotted(OLDEST_TORCH)} or newer, and the image of {stack.label} has Python {python}",
            "take a newer stack, or bring a training program of your own",
        )
    elif as_it_is:
        yield refusal(
            "extends_image",
            f"the project's own training program needs packages that AWS's image of {stack.label} "
            "does not bring",
            "leave image out, so that the image of containers/ that extends it is taken",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor: `1.13.1` as (1, 13)."""
    return tuple(int(part) for part in version.split(".")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)


class ImageError(CompilegateError):
    """There is no image for an arm; one sentence without a full stop."""


def image_of(deployment: Deployment, arm: Arm) -> str:
    """The URI of the image that an arm's jobs run in.

    That of the project's own folder, or AWS's own image in the deployment's region. Raises
    ImageError.
    """
    if arm.image_folder == AWS_IMAGE:
        return _aws_image(deployment, arm)
    if arm.image_folder not in deployment.images:
        raise ImageError(
            f"the {arm.compiler} arm runs in the image {arm.image_folder!r}, which is no folder "
            f"of containers/ that has one, allowed: {', '.join(sorted(deployment.images))}"
        )
    return deployment.images[arm.image_folder]


def image_faults(deployment: Deployment, arms: Mapping[str, Arm]) -> list[str]:
    """A sentence for each arm that has no image there."""
    faults = []
    for name, arm in arms.items():
        try:
            image_of(deployment, arm)
        except ImageError as error:
            faults.append(f"arms.{name}.image: {error}")
    return faults


def processing_faults(deployment: Deployment, program: Program | None) -> list[str]:
    """A sentence for each processing step without an image: what prepares data, a program of one's
    own or the project's, and the gate."""
    runs_in = {
        "Prepare" if program is None else "program.image": program.image if program else "training",
        "Gate": "gate",
    }
    return [
        f"{step} runs in the image {image!r}, which is no folder of containers/ with a "
        f"Dockerfile, allowed: {', '.join(sorted(deployment.images))}"
        for step, image in runs_in.items()
        if image not in deployment.images
    ]


def stack_of(arm: Arm) -> Stack | None:
    """What the catalog knows of the versions that an arm declares; None where it declares none, or
    there are no such."""
    declared = arm.stack
    if declared is None:
        return None
    return compilers()[arm.compiler].stack(
        declared.framework, declared.version, declared.transformers
    )


def _aws_image(deployment: Deployment, arm: Arm) -> str:
    stack = stack_of(arm)
    if stack is None:
        raise ImageError(f"the catalog knows no image of AWS's for this {arm.compiler} arm")
    try:
        return stack.image.uri(deployment.registry_region or deployment.region)
    except UnknownImageError as error:
        raise ImageError(str(error)) from error
