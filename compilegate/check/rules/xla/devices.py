"""Which device a script trains on, and what is made for another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import Found, View, keyword, rule, written


@rule("cuda-with-xla")
def cuda_with_xla(view: View) -> Iterator[Found]:
    if not view.xla_device:
        return
    for call in view.script.calls:
        if not _puts_on_cuda(view, call) or _is_choice(view, call):
            continue
        unsure = any(isinstance(part, ast.IfExp) for part in ast.walk(call))
        said = f"`{written(call)}` puts on CUDA what the script trains on XLA"
        yield Found(call, said, Severity.WARNING if unsure else None)


def _puts_on_cuda(view: View, call: ast.Call) -> bool:
    name = view.script.called(call)
    if name == "torch.device":
        return any(_says_cuda(argument) for argument in call.args)
    if name == "torch.cuda.set_device":
        return True
    device = keyword(call, "device")
    if device is not None and name.startswith("torch.") and _says_cuda(device):
        return True
    if not isinstance(call.func, ast.Attribute) or name.startswith("torch.cuda"):
        return False
    if call.func.attr == "cuda":
        return len(call.args) <= 1
    return call.func.attr == "to" and any(_says_cuda(argument) for argument in call.args[:1])


def _says_cuda(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and part.value.split(":")[0] == "cuda"
        for part in ast.walk(node)
    )


def _is_choice(view: View, node: ast.AST) -> bool:
    """Whether an `if` or a failed import decides, so that it may be the way without XLA."""
    inner: ast.AST = node
    for outer in view.script.ancestors(node):
        if isinstance(outer, ast.If | ast.Try | ast.ExceptHandler | ast.Match):
            return True
        if isinstance(outer, ast.IfExp) and inner is not outer.test:
            return True
        inner = outer
    return False


@rule("cuda-amp-with-xla")
def cuda_amp_with_xla(view: View) -> Iterator[Found]:
    if not view.xla_device:
        return
    for call in view.named("torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler"):
        if not _is_choice(view, call):
            yield Found(call, f"`{written(call.func)}` works on CUDA tensors alone")
    for call in view.named("torch.autocast"):
        if call.args and _says_cuda(call.args[0]) and not _is_choice(view, call):
            yield Found(call, f"`{written(call)}` works on CUDA tensors alone")


@rule("no-xla-device")
def no_xla_device(view: View) -> Iterator[Found]:
    # Only where such a compiler was asked for by name: other scripts are right to be on CUDA.
    if not view.asked_lazy or view.xla_anywhere or not view.script.uses("torch"):
        return
    if any(view.script.uses(name) for name in ("accelerate", "lightning", "pytorch_lightning")):
        return
    if not any(each.framework == "loop" for each in view.steps) or _by_framework(view):
        return
    for call in view.script.calls:
        if _puts_on_cuda(view, call):
            yield Found(call, f"`{written(call)}`: nothing of this script is on an XLA device")
            return


def _by_framework(view: View) -> bool:
    return bool({"tensorflow", "accelerator", "fabric"} & view.analysis.words)


@rule("plain-optimizer")
def plain_optimizer(view: View) -> Iterator[Found]:
    if not view.xla_device:
        return
    if not any(True for _ in view.named("torch_xla.amp.GradScaler")):
        return
    for call in view.script.calls:
        name = view.script.called(call)
        last = name.rsplit(".", 1)[-1]
        if name.startswith("torch.optim.") and last in {"SGD", "Adam", "AdamW"}:
            yield Found(call, f"`{written(call.func)}` waits for the scaler in each step")


RULES = (cuda_with_xla, cuda_amp_with_xla, no_xla_device, plain_optimizer)
