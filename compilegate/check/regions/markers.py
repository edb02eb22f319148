"""What shows that a step trains: the backward pass, and the update."""

from __future__ import annotations

import ast

from compilegate.check.script.project import Script
from compilegate.check.script.values import Sort, is_a

_UPDATES = frozenset(
    {
        "torch_xla.core.xla_model.optimizer_step",
        "compilegate.job.step",
    }
)


def is_backward(script: Script, call: ast.Call) -> bool:
    """`loss.backward()`, `accelerator.backward(loss)`, `self.manual_backward(loss)`, a tape's."""
    if not isinstance(call.func, ast.Attribute):
        return False
    attribute = call.func.attr
    if attribute in {"backward", "manual_backward"}:
        return not (call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "ctx")
    if attribute == "gradient":
        return any("GradientTape" in script.name(each) for each in _with_of(script, call))
    return attribute == "train_on_batch"


def _with_of(script: Script, call: ast.Call) -> list[ast.expr]:
    """What the receiver of a call was opened with."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return []
    name = call.func.value
    return [
        each.node.func for each in script.bindings(name.id, name) if isinstance(each.node, ast.Call)
    ]


def is_update(script: Script, call: ast.Call) -> bool:
    """`optimizer.step()`, `scaler.step(optimizer)`, `xm.optimizer_step(optimizer)`."""
    if script.called(call) in _UPDATES:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "apply_gradients":
        return not script.uses("flax")  # a state of JAX, which XLA compiles anyhow
    if call.func.attr == "optimizer_step":
        return True
    if call.func.attr != "step":
        return False
    receiver = call.func.value
    return is_a(script, receiver, Sort.OPTIMIZER) or is_a(script, receiver, Sort.SCALER)


_MARKS = ("backward", "manual_backward", "gradient", "train_on_batch", "step", "optimizer_step",
          "apply_gradients")  # fmt: skip


def markers(script: Script) -> list[ast.Call]:
    """Every backward pass and update of a script."""
    return [
        call
        for name in _MARKS
        for call in script.calls_by_last.get(name, ())
        if is_backward(script, call) or is_update(script, call)
    ]
