"""What stands here for images and functions, and what a definition's pipeline is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.cli.options.parameters import name_value_pairs
from compilegate.cli.workload.posture_record import posture_functions
from compilegate.local import FunctionSources, ImageSources, parse_handler, read_model

Command = TypeVar("Command", bound=Callable[..., Any])


def source_options(command: Command) -> Command:
    """Add `--image`, `--function` and `--model` to a command."""
    command = click.option(
        "--model",
        "models",
        metavar="NAME=FILE",
        multiple=True,
        help="The model that Transform steps call NAME and no step makes: FILE is its description, "
        "JSON, as `aws sagemaker describe-model` prints it. May be given several times.",
    )(command)
    command = click.option(
        "--function",
        "functions",
        metavar="PATTERN=FILE",
        multiple=True,
        help="The file that stands for Lambda functions whose ARN matches PATTERN: FILE.py, whose "
        "handler is lambda_handler, or FILE.py:HANDLER. May be given several times.",
    )(command)
    return click.option(
        "--image",
        "images",
        metavar="PATTERN=WHERE",
        multiple=True,
        help="Where to run images whose URI matches PATTERN: `here` (this Python environment), a "
        "folder with a requirements.txt, or a Python executable. May be given several times.",
    )(command)


def image_sources(patterns: tuple[str, ...], containers: Path) -> ImageSources:
    """Where images come from: the project's folders, and what was said on the command line."""
    return ImageSources(
        root=containers if containers.is_dir() else None,
        patterns=tuple(name_value_pairs("--image", patterns).items()),
    )


def function_sources(patterns: tuple[str, ...], home: Path) -> FunctionSources:
    """Where Lambda functions come from: the command line first, then the posture's own."""
    said = name_value_pairs("--function", patterns).items()
    own = tuple((pattern, parse_handler(file)) for pattern, file in said)
    return FunctionSources(patterns=(*own, *posture_functions(home).patterns))


def given_models(names: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """The models that are described on the command line, with their files read."""
    files = name_value_pairs("--model", names)
    return {name: read_model(name, Path(file)) for name, file in files.items()}


def definition_text(option: str, path: str) -> str:
    """What a definition's file holds, or standard input for `-`."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option}: {path} cannot be read: {error}") from error


def definition_name(path: Path) -> str:
    """A pipeline's name from that of its file, which may not be valid for one."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", path.stem).strip("-") or "definition"
