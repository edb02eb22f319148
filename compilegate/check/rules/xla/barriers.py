"""What ends a step under PyTorch/XLA, so that what was traced runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.regions.feeding import loop_sources
from compilegate.check.regions.steps import Step, called_functions
from compilegate.check.rules.rule import Found, View, keyword, rule
from compilegate.check.script.project import Script
from compilegate.check.script.values import Sort, is_a, origins

_ENDS = frozenset(
    {"torch_xla.core.xla_model.mark_step", "torch_xla.sync", "torch_xla.step", "torch_xla.compile",
     "torch_xla.core.xla_model.wait_device_ops", "torch_xla.experimental.compile"}
)  # fmt: skip
_LOADERS = ("MpDeviceLoader", "ParallelLoader", "per_device_loader")


@rule("missing-mark-step")
def missing_mark_step(view: View) -> Iterator[Found]:
    if not view.xla_device:
        return
    for step in view.steps:
        if step.framework != "loop" or _ends_elsewhere(view, step):
            continue
        if isinstance(step.node, ast.While):
            known = True
        else:
            known = not isinstance(step.node, ast.For) or _plain_loader(step)
        if known and _trains_on_torch(step):
            said = "nothing in this loop ends the step for PyTorch/XLA"
            yield Found(step.node, said)


def _trains_on_torch(step: Step) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"backward", "step", "optimizer_step"}
        for node in ast.walk(step.node)
    )


def _ends_elsewhere(view: View, step: Step) -> bool:
    """Whether the step, what it calls or what is around it has a barrier."""
    script = step.script
    for outer in script.ancestors(step.node):
        if isinstance(outer, ast.With):
            for item in outer.items:
                if _is_end(script, item.context_expr):
                    return True
    return _has_end(script, step.node, set()) or _functools(view, step)


def _functools(view: View, step: Step) -> bool:
    """Whether the step calls what cannot be followed and may well have the barrier."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and step.script.definition(node.func) is None
        and any(word in node.func.id.lower() for word in ("mark", "sync", "barrier"))
        for node in ast.walk(step.node)
    )


def _has_end(script: Script, node: ast.AST, seen: set[ast.AST]) -> bool:
    for part in ast.walk(node):
        if not isinstance(part, ast.Call):
            continue
        if _is_end(script, part):
            return True
        for called in called_functions(script, part):
            if called.node not in seen:
                seen.add(called.node)
                if _has_end(called.script, called.node, seen):
                    return True
    return False


def _is_end(script: Script, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = script.called(node)
    if name in _ENDS:
        return True
    if name == "torch_xla.core.xla_model.optimizer_step":
        barrier = keyword(node, "barrier") or (node.args[1] if len(node.args) > 1 else None)
        return barrier is not None and not (
            isinstance(barrier, ast.Constant) and barrier.value is False
        )
    return isinstance(node.func, ast.Attribute) and node.func.attr in {"mark_step", "step_closure"}


def _plain_loader(step: Step) -> bool:
    """Whether the loop goes over what is known to end no step: a DataLoader, or a range."""
    if not isinstance(step.node, ast.For):
        return False
    known = False
    for origin in loop_sources(step.script, step.node.iter):
        node = origin.node
        if isinstance(node, ast.Call):
            name = origin.script.called(node)
            last = node.func.attr if isinstance(node.func, ast.Attribute) else name
            if any(last.endswith(loader) for loader in _LOADERS):
                return False
            if name in {"torch.utils.data.DataLoader", "builtins.range"}:
                known = True
    return known


@rule("gradients-not-reduced")
def gradients_not_reduced(view: View) -> Iterator[Found]:
    script = view.script
    if not is_distributed(script) or _reduces(view):
        return
    for call in view.methods("step"):
        if not view.each_step(call) or not isinstance(call.func, ast.Attribute):
            continue
        receiver = call.func.value
        if is_a(script, receiver, Sort.OPTIMIZER) or is_a(script, receiver, Sort.SCALER):
            said = f"`{ast.unparse(call.func)}` updates without gathering the gradients"
            yield Found(call, said)


SPAWNS = frozenset(
    {"torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch"}
)  # fmt: skip


def is_distributed(script: Script) -> bool:
    """Whether a script trains in several processes of PyTorch/XLA."""
    if not script.uses("torch_xla"):
        return False
    if script.calls_of(*SPAWNS):
        return True
    return any(function.name == "_mp_fn" for function in script.tree.functions)


_REDUCING = frozenset(
    {"all_reduce", "optimizer_step", "reduce_gradients", "_fetch_gradients", "use_spmd",
     "distributeddataparallel", "xlafullyshardeddataparallel", "fsdp", "mark_sharding",
     "spmdfullyshardeddataparallel", "accelerator", "fullyshardeddataparallel", "ddp", "trainer"}
)  # fmt: skip


def _reduces(view: View) -> bool:
    """Whether anything in the check gathers gradients, or leaves that to the compiler."""
    return bool(_REDUCING & view.analysis.words)


@rule("gradients-not-averaged")
def gradients_not_averaged(view: View) -> Iterator[Found]:
    for call in view.named("torch_xla.core.xla_model.all_reduce"):
        if len(call.args) != 2 or any(word.arg in {None, "scale"} for word in call.keywords):
            continue
        sums, gathered = call.args
        is_sum = (isinstance(sums, ast.Constant) and sums.value == "sum") or (
            view.script.name(sums) == "torch_xla.core.xla_model.REDUCE_SUM"
        )
        if is_sum and _fetched(view, gathered) and not _divides(view):
            yield Found(call, "the gradients are added up and not divided by the processes")


def _fetched(view: View, node: ast.expr) -> bool:
    """Whether a value is the gradients that PyTorch/XLA gives of an optimizer."""
    return any(
        isinstance(origin.node, ast.Call)
        and origin.script.called(origin.node) == "torch_xla.core.xla_model._fetch_gradients"
        for origin in origins(view.script, node)
    )


def _divides(view: View) -> bool:
    """Whether anything of the script, the loss or the rate too, is divided by the processes."""
    return any(
        "world" in ast.unparse(node.right if isinstance(node, ast.BinOp) else node.value)
        for node in ast.walk(view.script.source.tree)
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
    ) or any(
        "world" in ast.unparse(argument)
        for call in view.methods("div", "div_", "mul_")
        for argument in call.args
    )


@rule("reduce-after-unscale")
def reduce_after_unscale(view: View) -> Iterator[Found]:
    for step in view.steps:
        reductions: list[ast.Call] = []
        scaled: list[ast.Call] = []
        for node in ast.walk(step.node):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if view.script.called(node) == "torch_xla.core.xla_model.all_reduce":
                reductions.append(node)
            elif node.func.attr in {"unscale_", "clip_grad_norm_", "clip_grad_value_"}:
                scaled.append(node)
        if reductions and scaled:
            first = min(reductions, key=_line)
            before = [each for each in scaled if each.lineno < first.lineno]
            if before:
                said = "the gradients are gathered after they were unscaled or clipped"
                yield Found(min(before, key=_line), said)


def _line(node: ast.Call) -> int:
    return node.lineno


RULES = (
    missing_mark_step,
    gradients_not_reduced,
    gradients_not_averaged,
    reduce_after_unscale,
)
