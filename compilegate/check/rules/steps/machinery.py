"""What is switched on around training and slows each step: profilers, loaders, DataParallel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, keyword, rule, written
from compilegate.check.script.spliced import spliced
from compilegate.check.script.values import Sort, is_a

_PROFILERS = frozenset(
    {"torch.profiler.profile", "torch.autograd.profiler.profile",
     "torch.autograd.profiler.emit_nvtx", "torch_xla.debug.profiler.start_server",
     "torch_xla.debug.profiler.trace"}
)  # fmt: skip
_DEBUGGING = frozenset({"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"})
_HOOKS = frozenset(
    {"smdebug.pytorch.Hook", "smdebug.pytorch.get_hook", "smdebug.tensorflow.KerasHook",
     "sagemaker.debugger.DebuggerHookConfig"}
)  # fmt: skip


@rule("profiler-on")
def profiler_on(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        name = view.script.called(call)
        if name in _DEBUGGING and not _is_false(call) and not _optional(view, call):
            yield Found(call, f"`{written(call.func)}` checks every gradient")
        elif name in _PROFILERS and not _optional(view, call) and _has_step(view):
            if keyword(call, "schedule") is None:
                yield Found(call, f"`{written(call.func)}` profiles all of training")
        elif name in _HOOKS and not _optional(view, call):
            yield Found(call, f"`{written(call.func)}` lets SageMaker Debugger read tensors")


def _is_false(call: ast.Call) -> bool:
    given = call.args[0] if call.args else keyword(call, "mode")
    if given is None:
        return False
    return not isinstance(given, ast.Constant) or given.value is False


def _optional(view: View, call: ast.Call) -> bool:
    """Whether an `if` or an argument that may be off decides."""
    return any(isinstance(outer, ast.If | ast.IfExp) for outer in view.script.ancestors(call))


def _has_step(view: View) -> bool:
    return bool(view.steps)


@rule("no-loader-workers")
def no_loader_workers(view: View) -> Iterator[Found]:
    feeding = view.analysis.training_loaders
    for call in view.named("torch.utils.data.DataLoader"):
        words = spliced(view.script, call)
        if words is None or len(call.args) > 5:
            continue
        given = words.get("num_workers")
        none = isinstance(given, ast.Constant) and given.value == 0
        if (given is None or none) and call in feeding:
            yield Found(call, "the loader reads its batches in the training process")


@rule("data-parallel")
def data_parallel(view: View) -> Iterator[Found]:
    for call in view.named("torch.nn.parallel.data_parallel"):
        yield Found(call, "the model is run by `data_parallel`")
    for call in view.named("torch.nn.parallel.DataParallel"):
        if _has_step(view) or (call.args and is_a(view.script, call.args[0], Sort.MODEL)):
            yield Found(call, "the model is wrapped in DataParallel")


@rule("full-precision")
def full_precision(view: View) -> Iterator[Found]:
    steps = [step for step in view.steps if step.framework == "loop"]
    if not steps or _lowers_precision(view):
        return
    yield Found(steps[0].node, "this loop trains with 32-bit floats alone")


_PRECISION = re.compile(
    r"autocast|bfloat16|float16|bf16|fp16|^\.half$|^half=$|mixed_precision|gradscaler|^amp$|^amp_|_amp$|_amp_"
    r"|tf32|deepspeed|matmul_precision|^accelerate$|fabric|fp8|^precision$"
)


def _lowers_precision(view: View) -> bool:
    """Whether the script, or one that it is joined with by imports, names another precision, in
    code or as an option."""
    return any(_PRECISION.search(word) for word in view.analysis.code_words(view.script))


RULES = (profiler_on, no_loader_workers, data_parallel, full_precision)
