"""Which loaders feed the loops that train."""

from __future__ import annotations

import ast
import re

from compilegate.check.regions.steps import Step
from compilegate.check.script.project import Project, Script
from compilegate.check.script.values import Origin, origins

_AROUND = frozenset(
    {"enumerate", "tqdm", "trange", "zip", "iter", "islice", "cycle", "next", "MpDeviceLoader",
     "ParallelLoader", "per_device_loader", "prepare_data_loader", "setup_dataloaders",
     "prepare", "skip_first_batches", "track", "prefetch", "log_every"}
)  # fmt: skip


def loop_sources(script: Script, node: ast.expr, depth: int = 0) -> list[Origin]:
    """What a loop goes over, without what only counts or shows progress."""
    found: list[Origin] = []
    for origin in origins(script, node) if depth < 6 else ():
        inner = origin.node
        if isinstance(inner, ast.Call):
            last = inner.func.attr if isinstance(inner.func, ast.Attribute) else ""
            last = inner.func.id if isinstance(inner.func, ast.Name) else last
            if last in _AROUND and inner.args:
                gives_back_each = last in {"prepare", "setup_dataloaders"}
                index = origin.index if origin.index is not None and gives_back_each else None
                given = inner.args[index] if index is not None and index < len(inner.args) else None
                for argument in [given] if given is not None else inner.args:
                    found += loop_sources(origin.script, argument, depth + 1)
        found.append(origin)
    return found


def training_loaders(project: Project, steps: list[Step]) -> frozenset[ast.AST]:
    """The calls that make what the loops that train go over, in any script of the check."""
    found: set[ast.AST] = set()
    for step in steps:
        loop = step.node
        if isinstance(loop, ast.For | ast.AsyncFor):
            found |= {origin.node for origin in loop_sources(step.script, loop.iter)}
        if isinstance(loop, ast.For | ast.While):  # `batch = next(batches)` within the loop
            for node in ast.walk(loop):
                if isinstance(node, ast.Call) and step.script.called(node) == "builtins.next":
                    for argument in node.args[:1]:
                        found |= {each.node for each in loop_sources(step.script, argument)}
    for script in project.scripts:
        if script.uses("lightning") or script.uses("pytorch_lightning"):
            found |= _lightning_loaders(script)
        for call in script.calls:
            if _trains(script, call) or _trains_there(script, call):
                for argument in _to_train_on(call):
                    found |= {origin.node for origin in origins(script, argument)}
    return frozenset(found)


def _trains(script: Script, call: ast.Call) -> bool:
    """Whether a call runs a framework's loop: `trainer.fit(model, loader)`, and Ignite's
    `trainer.run(loader)`, where an evaluator has a `run` too."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "run" and script.uses("ignite"):
        return "train" in ast.unparse(call.func.value).lower()
    return call.func.attr == "fit"


def _trains_there(script: Script, call: ast.Call) -> bool:
    """Whether a call hands its arguments to training that is in no script of the check."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    return (
        name.lower().startswith(("train", "fit_"))
        and bool(script.called(call))
        and script.definition(call.func) is None
    )


def _to_train_on(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call without those that are named for another use."""
    given = [(ast.unparse(each), each) for each in call.args]
    given += [(f"{word.arg} {ast.unparse(word.value)}", word.value) for word in call.keywords]
    return [each for text, each in given if not _OTHER_USE.search(text.lower())]


_OTHER_USE = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|test|eval|dev)(?![a-z])")


def _lightning_loaders(script: Script) -> set[ast.AST]:
    return {
        node
        for function in script.tree.functions
        if function.name == "train_dataloader"
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    }
