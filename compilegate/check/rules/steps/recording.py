"""What is written, saved or evaluated in each step although now and then would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.script.environments import of_an_environment
from compilegate.check.script.tensors import is_tensor
from compilegate.check.script.values import origins


@rule("log-in-step")
def log_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if not _records(view, call) or not view.each_step(call) or view.in_told_region(call):
            continue
        arguments = (*call.args, *(word.value for word in call.keywords))
        if any(_holds_value(view, argument) for argument in arguments):
            yield Found(call, f"`{written(call.func)}` records a value of the device in each step")


_RECORDING_METHODS = frozenset(
    {"add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "log_metric",
     "log_metrics"}
)  # fmt: skip
_RECORDING_CALLS = frozenset(
    {"wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "comet_ml.log"}
)


def _records(view: View, call: ast.Call) -> bool:
    if view.script.called(call) in _RECORDING_CALLS:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _RECORDING_METHODS:
        return True
    if call.func.attr != "log":
        return False
    receiver = written(call.func.value).lower()
    return any(word in receiver for word in ("accelerator", "wandb", "run", "fabric")) or any(
        isinstance(origin.node, ast.Call)
        and origin.script.called(origin.node) in {"accelerate.Accelerator", "wandb.init"}
        for origin in origins(view.script, call.func.value)
    )


def _holds_value(view: View, node: ast.expr) -> bool:
    """Whether a tensor, or a value read from one, is in an argument."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in {"item", "tolist"}:
            if not of_an_environment(view.script, part.value):
                return True
            continue
        if isinstance(part, ast.Name | ast.Attribute) and is_tensor(view.script, part):
            return True
        if isinstance(part, ast.Name) and _was_read(view, part):
            return True
    return False


def _was_read(view: View, name: ast.Name) -> bool:
    """Whether a variable is reckoned of what the same step reads from the device."""
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "item"
        and view.each_step(part)
        and not of_an_environment(origin.script, part.value)
        for origin in origins(view.script, name)
        for part in ast.walk(origin.node)
    )


_SAVING = frozenset(
    {"torch.save", "torch_xla.core.xla_model.save", "safetensors.torch.save_file",
     "safetensors.torch.save_model"}
)  # fmt: skip
_SAVING_METHODS = frozenset({"save_pretrained", "save_checkpoint", "save_state", "save_weights"})


@rule("save-in-step")
def save_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if view.script.called(call) not in _SAVING and method not in _SAVING_METHODS:
            continue
        if view.each_step(call) and not _conditional(view, call):
            yield Found(call, f"`{written(call.func)}` saves in each step")


@rule("evaluate-in-step")
def evaluate_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        if name not in {"evaluate", "validate", "run_validation", "run_eval", "eval_model"}:
            continue
        if view.each_step(call) and not _conditional(view, call):
            yield Found(call, f"`{written(call.func)}` evaluates in each step")


def _conditional(view: View, call: ast.Call) -> bool:
    """Whether an `if` within the step decides; what it decides by may well be rare."""
    for outer in view.script.ancestors(call):
        if isinstance(outer, ast.If):
            return True
        if isinstance(outer, ast.For | ast.While | ast.FunctionDef):
            return False
    return False


RULES = (log_in_step, save_in_step, evaluate_in_step)
