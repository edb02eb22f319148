"""Values that are read from the device in each step, which makes the host wait for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import ALL, Found, View, rule, written
from compilegate.check.script.tensors import is_tensor

_BEST_PRACTICES = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/training-compiler-pytorch-models.html"
)


@rule(
    "item-in-step",
    Severity.WARNING,
    ALL,
    why="Reading a tensor's value makes the host wait for the device, each step anew; a lazy "
    "tracer must run its graph there, and a compiled graph breaks.",
    fix="Add up the loss as a tensor (`total += loss.detach()`) and read it every so many steps.",
    page=_BEST_PRACTICES,
)
def item_in_step(view: View) -> Iterator[Found]:
    for call in view.methods("item", "tolist"):
        if call.args or call.keywords or not view.each_step(call):
            continue
        if isinstance(call.func, ast.Attribute) and not _on_the_host(view, call.func.value):
            said = written(call)
            yield Found(call, f"`{said}` reads a value from the device in each step")


def _on_the_host(view: View, node: ast.expr) -> bool:
    """Whether a value is known to be no tensor of the device: NumPy's, or of `.cpu()`."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in {"numpy", "cpu"})
        or (isinstance(part, ast.expr) and view.script.name(part).startswith(("numpy.", "random.")))
        for part in ast.walk(node)
    )


@rule(
    "print-in-step",
    Severity.WARNING,
    ALL,
    why="To print or log a tensor the host must wait for its value, each step anew.",
    fix="Print every so many steps; under PyTorch/XLA inside `xm.add_step_closure`.",
    page=_BEST_PRACTICES,
)
def print_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if not view.each_step(call) or not _prints(view, call):
            continue
        shown = next((part for part in _shown(call) if is_tensor(view.script, part)), None)
        if shown is not None:
            yield Found(call, f"the tensor `{written(shown)}` is printed in each step")


_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "critical"})


def _prints(view: View, call: ast.Call) -> bool:
    name = view.script.called(call)
    if name in {"builtins.print", "logging.info", "logging.debug", "logging.warning",
                "logging.error", "torch_xla.core.xla_model.master_print"}:  # fmt: skip
        return True
    if isinstance(call.func, ast.Attribute):
        if call.func.attr in _LOGGING and isinstance(call.func.value, ast.Name):
            return "log" in call.func.value.id.lower()
        return name in {"tqdm.tqdm.write", "tqdm.write"} or call.func.attr == "print"
    return False


def _shown(call: ast.Call) -> Iterator[ast.expr]:
    """What a call prints: its arguments, and what stands in f-strings and `%` or `format`."""
    for argument in call.args:
        match argument:
            case ast.JoinedStr():
                for part in argument.values:
                    if isinstance(part, ast.FormattedValue):
                        yield part.value
            case ast.BinOp(op=ast.Mod(), right=ast.Tuple() as right):
                yield from right.elts
            case ast.BinOp(op=ast.Mod()):
                yield argument.right
            case ast.Call(func=ast.Attribute(attr="format")):
                yield from argument.args
                yield from (word.value for word in argument.keywords)
            case _:
                yield argument


RULES = (item_in_step, print_in_step)
