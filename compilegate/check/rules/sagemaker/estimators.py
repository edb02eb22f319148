"""Estimators of the SageMaker SDK as a script writes them, with Training Compiler or without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from compilegate.catalog import Asked, check
from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import instance_of
from compilegate.check.rules.rule import View, keyword
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins

COMPILER = "training-compiler"
"""What the catalog calls it."""
_FRAMEWORKS = {
    "HuggingFace": "sagemaker.huggingface",
    "PyTorch": "sagemaker.pytorch",
    "TensorFlow": "sagemaker.tensorflow",
}


@dataclass(frozen=True)
class Estimator:
    """One estimator, with the values of its arguments as far as they can be read."""

    script: Script
    call: ast.Call
    framework: str
    compiler: ast.Call | None
    """The `TrainingCompilerConfig(...)`; None without the compiler."""

    def given(self, name: str) -> ast.expr | None:
        """The value of an argument, followed over names and `**arguments`."""
        found = keyword(self.call, name)
        if found is None:
            for word in self.call.keywords:
                if word.arg is None:
                    found = found or member(settled(self.script, word.value), name)
        return None if found is None else settled(self.script, found)

    def text(self, name: str) -> str:
        """The text of an argument; "" where it is not written in the script."""
        value = self.given(name)
        return (
            value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
        )

    def number(self, name: str) -> int | None:
        """The number given for an argument."""
        value = self.given(name)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            return value.value
        return None

    @property
    def read_whole(self) -> bool:
        """Whether every argument is written in the script, so that one not found is not given."""
        return all(
            word.arg is not None or isinstance(settled(self.script, word.value), ast.Dict)
            for word in self.call.keywords
        )

    @cached_property
    def hyperparameters(self) -> tuple[dict[str, ast.expr], bool]:
        """The hyperparameters as they are when it is made, and whether these are all."""
        given = self.given("hyperparameters")
        found: dict[str, ast.expr] = {}
        whole = given is None or _gather(self.script, given, found)
        argument = keyword(self.call, "hyperparameters")
        if isinstance(argument, ast.Name):
            for change in _changes(self.script, argument.id, self.call.lineno):
                if isinstance(change, ast.Assign):
                    key = _key(change.targets[0])
                    if key is None:
                        whole = False
                    else:
                        found[key] = change.value
                elif len(change.args) != 1 or not _gather(self.script, change.args[0], found):
                    whole = False
        return found, whole

    @property
    def gpus(self) -> int | None:
        """The GPUs of all its instances; None where they are not known."""
        known = instance_of(self.text("instance_type"))
        count = self.number("instance_count")
        return None if known is None or count is None else known.accelerators * count

    @cached_property
    def refused(self) -> frozenset[str]:
        """What the catalog has against Training Compiler on its instances, by code; nothing where
        the type is not written in the script."""
        instance = self.text("instance_type")
        if not instance:
            return frozenset()
        count = self.number("instance_count") or 1
        asked = Asked(compiler=COMPILER, instance_type=instance, instance_count=count)
        return frozenset(each.code for each in check(asked))

    @property
    def supported(self) -> bool:
        """Whether Training Compiler runs on its instances."""
        return not self.refused & {"processor", "instance-class"}

    @property
    def one_gpu(self) -> bool:
        """Whether each of its instances has one GPU."""
        known = instance_of(self.text("instance_type"))
        return known is not None and known.accelerators == 1

    def where(self, name: str) -> ast.AST:
        """Where an argument is given; the estimator where it is not."""
        found = keyword(self.call, name)
        return found if found is not None else self.call

    def place(self, node: ast.AST | None, name: str) -> ast.AST:
        """A node of this script; where it is another script's, the argument that leads to it."""
        if node is not None and self.script.parent(node) is not None:
            return node
        return self.where(name)


def settled(script: Script, node: ast.expr) -> ast.expr:
    """What a name stands for, where that is one value."""
    found = origins(script, node)
    return found[0].node if len(found) == 1 and found[0].index is None else node


def member(node: ast.expr | None, key: str) -> ast.expr | None:
    """What a dictionary written in the script holds for a key."""
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return keyword(node, key)
    return None


def keys(node: ast.expr | None) -> list[str]:
    """The keys of a dictionary written in the script."""
    if isinstance(node, ast.Dict):
        return [
            name.value
            for name in node.keys
            if isinstance(name, ast.Constant) and isinstance(name.value, str)
        ]
    return []


def hyperparameter(estimator: Estimator, *names: str) -> ast.expr | None:
    """What is given for the first of some hyperparameters, with `-` or `_` between the words."""
    given, _ = estimator.hyperparameters
    return next(
        (
            given[spelled]
            for name in names
            for spelled in (name, name.replace("_", "-"))
            if spelled in given
        ),
        None,
    )


def estimators(view: View) -> Iterator[Estimator]:
    """Every estimator of a framework."""
    if not view.script.uses("sagemaker"):
        return
    for call in view.script.calls:
        name = view.script.called(call)
        last = name.rsplit(".", 1)[-1]
        if last not in _FRAMEWORKS or not name.startswith(_FRAMEWORKS[last]):
            continue
        made = Estimator(view.script, call, last, None)
        config = made.given("compiler_config")
        if isinstance(config, ast.Call) and view.script.called(config).endswith(
            "TrainingCompilerConfig"
        ):
            made = Estimator(view.script, call, last, config)
        yield made


def compiled_estimators(view: View) -> Iterator[Estimator]:
    """The estimators with Training Compiler switched on."""
    for estimator in estimators(view):
        if estimator.compiler is not None:
            enabled = keyword(estimator.compiler, "enabled")
            if not (isinstance(enabled, ast.Constant) and enabled.value is False):
                yield estimator


def _gather(script: Script, node: ast.expr, found: dict[str, ast.expr]) -> bool:
    """Take down what a dictionary holds; say whether all of it could be read."""
    node = settled(script, node)
    if isinstance(node, ast.Dict):
        whole = True
        for name, value in zip(node.keys, node.values, strict=True):
            if name is None:
                whole = _gather(script, value, found) and whole
            elif isinstance(name, ast.Constant) and isinstance(name.value, str):
                found[name.value] = value
            else:
                whole = False
        return whole
    if isinstance(node, ast.Call) and script.called(node) == "builtins.dict" and not node.args:
        found.update({word.arg: word.value for word in node.keywords if word.arg is not None})
        return all(word.arg is not None for word in node.keywords)
    return False


def _changes(script: Script, name: str, before: int) -> list[ast.Assign | ast.Call]:
    """The assignments `NAME[...] = ...` and the calls `NAME.update(...)` above a line."""
    found: list[ast.Assign | ast.Call] = []
    for node in ast.walk(script.source.tree):
        if isinstance(node, ast.Assign):
            place = node.targets[0].value if isinstance(node.targets[0], ast.Subscript) else None
        elif isinstance(node, ast.Call):
            function = node.func
            changes = isinstance(function, ast.Attribute) and function.attr == "update"
            place = function.value if changes and isinstance(function, ast.Attribute) else None
        else:
            continue
        if isinstance(place, ast.Name) and place.id == name and node.lineno < before:
            found.append(node)
    return sorted(found, key=lambda each: each.lineno)


def _key(target: ast.expr) -> str | None:
    """The text in `NAME["text"]`."""
    place = target.slice if isinstance(target, ast.Subscript) else None
    return place.value if isinstance(place, ast.Constant) and isinstance(place.value, str) else None


def called_native(script: Script, what: str) -> Iterator[tuple[str, ast.expr]]:
    """The names of a script, with their values, that say: this is the job without the compiler."""
    pattern = re.compile(rf"(?:{what}).*native|native.*(?:{what})", re.IGNORECASE)
    for statement in ast.walk(script.source.tree):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and pattern.search(target.id):
                    yield target.id, statement.value


@cache
def supported_versions(framework: str) -> dict[str, set[tuple[int, ...]]]:
    """The versions, two numbers each, that Training Compiler has images with, by the argument of an
    estimator of that framework."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for stack in compilers()[COMPILER].stacks:
        if framework == "HuggingFace" and stack.transformers is not None:
            given = {
                "transformers_version": stack.transformers,
                f"{stack.framework}_version": stack.version,
            }
        elif framework.lower() == stack.framework and stack.transformers is None:
            given = {"framework_version": stack.version}
        else:
            continue
        for name, text in given.items():
            found.setdefault(name, set()).add(version(text)[:2])
    return found


@cache
def first_with_pytorchxla() -> tuple[int, ...]:
    """The first PyTorch whose image takes that distribution; before, a launcher starts scripts."""
    stacks = compilers()[COMPILER].stacks
    return min(version(each.version)[:2] for each in stacks if each.distribution == "pytorchxla")


def version(text: str) -> tuple[int, ...]:
    """A version as numbers; empty where it is none."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
