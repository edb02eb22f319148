"""What PyTorch/XLA needs in a script, and what keeps TensorFlow from making a graph of the step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import (
    FUNCTIONS,
    LOOPS,
    Script,
    calls_in,
    is_constant,
    keyword,
    last_name,
    owner_of,
)
from compilegate.check.rules.base import TRAINING_COMPILER, Match, View, written
from compilegate.check.rules.estimators import compiled_estimators
from compilegate.check.rules.step import trainer_options
from compilegate.check.steps import Step
from compilegate.check.values import Kind
from compilegate.rules import Severity

# ---- the end of a step

_ENDS = frozenset({"mark_step", "sync", "step_closure", "wait_device_ops"})
_XM = "torch_xla.core.xla_model."
_HAVE_SYNCFREE = ("torch.optim.SGD", "torch.optim.Adam", "torch.optim.AdamW")


def xla_device(view: View) -> bool:
    """Whether the script itself puts tensors on an XLA device."""
    devices = (each for call in view.script.calls_of("torch.device") for each in call.args)
    made = view.script.calls_of(f"{_XM}xla_device", "torch_xla.device")
    return bool(made) or (view.xla and any(is_constant(each, "xla") for each in devices))


def missing_mark_step(view: View) -> Iterator[Match]:
    """Nothing in the loop makes PyTorch/XLA run what it has traced."""
    if not xla_device(view):
        return
    for step in view.steps:
        if step.sort == "loop" and not _ends(view, step) and _plain(view, step):
            yield Match(step.node, "nothing in this loop ends the step for PyTorch/XLA")


def _ends(view: View, step: Step) -> bool:
    """Whether the step, what it calls or what is around it has a barrier."""
    around = [each for each in step.script.ancestors(step.node) if isinstance(each, ast.With)]
    pending: list[tuple[Script, ast.AST]] = [(step.script, step.node)]
    pending += [(step.script, item.context_expr) for each in around for item in each.items]
    seen: set[ast.AST] = set()
    while pending:
        script, outer = pending.pop()
        for call in calls_in(outer) if outer not in seen else ():
            if _is_end(script, call):
                return True
            pending += [(x.script, x.node) for x in view.analysis.steps.called(script, call)]
        seen.add(outer)
    return False


def _is_end(script: Script, call: ast.Call) -> bool:
    name, last = script.called(call), last_name(call.func)
    if last == "optimizer_step":
        barrier = keyword(call, "barrier")
        return barrier is not None and not is_constant(barrier, False)
    known = "xla" in name or not name or script.definition(call.func) is None
    return name in ("torch_xla.step", "torch_xla.compile") or (known and last in _ENDS)


def _plain(view: View, step: Step) -> bool:
    """Whether the loop goes over what is known to end no step: a DataLoader, a count."""
    if not isinstance(step.node, ast.For):
        return True
    over = ast.unparse(step.node.iter)
    ends = {"paralleldeviceloader", "mpdeviceloader", "parallelloader"} & view.analysis.words
    if "range(" in over or ends or re.search(r"device_loader|para_", over):
        return "range(" in over and "next(" not in ast.unparse(step.node)
    return view.analysis.values.element(view.script, step.node.iter) is Kind.BATCH


# ---- several processes

_REDUCES = frozenset(
    {"all_reduce", "optimizer_step", "reduce_gradients", "_fetch_gradients", "use_spmd", "ddp",
     "distributeddataparallel", "xlafullyshardeddataparallel", "fsdp", "mark_sharding", "trainer",
     "spmdfullyshardeddataparallel", "accelerator", "fullyshardeddataparallel",
     "bucket_allreduce_gradients", "neuronzero1optimizer", "zeroredundancyoptimizer",
     "neuronx_distributed"}
)  # fmt: skip


def is_distributed(script: Script) -> bool:
    """Whether a script trains in several processes of PyTorch/XLA."""
    spawns = script.calls_of("torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch")
    groups = script.calls_by_last.get("init_process_group", ())
    given = [x for call in groups for x in (*call.args, *(word.value for word in call.keywords))]
    backend = any(is_constant(each, "xla") for each in given)
    started = spawns or backend or any(each.name == "_mp_fn" for each in script.functions)
    return bool(started) and script.uses("torch_xla")


def gradients_not_reduced(view: View) -> Iterator[Match]:
    """Each process updates by its own gradients, or by a sum, or clips before they are gathered."""
    script, several = view.script, is_distributed(view.script)
    for call, _ in view.methods("step") if several and not _REDUCES & view.analysis.words else ():
        if view.each_step(call) and view.analysis.steps.is_update(script, call):
            message = f"`{written(call.func)}` updates without gathering the gradients"
            yield Match(call, message)
    divides = re.compile(r"/=?\s*(?:float\()?[\w.]*(?:world_size|num_replicas)")
    if not any(divides.search(line) for line in script.source.lines):
        for call in view.script.calls_of(f"{_XM}all_reduce"):
            how, what = [*map(ast.unparse, call.args), "", ""][:2]
            sums = how == "'sum'" or how.endswith("REDUCE_SUM")
            gathers = len(call.args) == 2 and "grad" in what.lower()
            if sums and gathers and keyword(call, "scale") is None:
                yield Match(call, "the gradients are added up and not divided by the processes")
    for step in view.steps if several else ():
        calls = calls_in(step.node)
        gathers = ("all_reduce", "reduce_gradients", "optimizer_step", "bucket_allreduce_gradients")
        first = min((x.lineno for x in calls if last_name(x.func) in gathers), default=0)
        for call in calls:
            clips = re.fullmatch(r"torch\.nn\.utils\.clip_grad_\w+", script.called(call))
            if call.lineno < first and (clips or last_name(call.func) == "unscale_"):
                yield Match(call, "the gradients are gathered after they were unscaled or clipped")


def no_distributed_sampler(view: View) -> Iterator[Match]:
    """Each process goes over the same data."""
    shards = {"use_spmd", "accelerator", "shard", "iterabledataset", "trainer", "mark_sharding"}
    if not is_distributed(view.script) or shards & view.analysis.words:
        return
    for call in view.loaders:
        sampled = {"sampler", "batch_sampler"} & {word.arg for word in call.keywords}
        if is_constant(keyword(call, "shuffle"), True) and not sampled:
            yield Match(call, "each process goes over all of the data")


def no_common_seed(view: View) -> Iterator[Match]:
    """Nothing makes the processes start from the same weights."""
    seeds = {"manual_seed", "set_seed", "seed_everything", "set_rng_state", "load_state_dict",
             "from_pretrained", "broadcast_master_param", "fix_seed", "seed", "pretrained",
             "broadcast", "weights", "seed_all", "set_random_seed"}  # fmt: skip
    if not is_distributed(view.script) or not view.steps:
        return
    alike = {"broadcast_master_param", "load_state_dict", "from_pretrained"} & view.analysis.words
    seeded = [call for call, _ in view.methods("manual_seed", "set_rng_state")]
    own = all(re.search(r"rank|ordinal|index", ast.unparse(each)) for each in seeded)
    if seeded and own and not alike:
        yield Match(seeded[0], "each process has a seed of its own, and so weights of its own")
    if not seeds & view.analysis.words:
        named = (each for each in view.script.functions if each.name == "_mp_fn")
        yield Match(next(named, view.steps[0].node), "no seed makes the processes start alike")


# ---- devices

_CHOICES = (ast.If, ast.Try, ast.ExceptHandler, ast.Match, ast.IfExp)


def cuda_with_xla(view: View) -> Iterator[Match]:
    """Something is put on CUDA where the model trains on XLA, or everything is."""
    if xla_device(view):
        for call in view.script.calls:
            name = view.script.called(call)
            scales = name in ("torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler")
            scales = scales or (name == "torch.autocast" and any(map(_says_cuda, call.args[:1])))
            if not scales and not _puts_on_cuda(view, call):
                continue
            # An `if` or a failed import around it may be the way without XLA.
            around = (*ast.walk(call), *view.script.ancestors(call))
            if not any(isinstance(each, _CHOICES) for each in around):
                message = f"`{written(call)}` is for CUDA, and the script trains on XLA"
                yield Match(call, message, Severity.WARNING if scales else None)
        return
    # Only in a check for such compilers alone: other scripts are right to be on CUDA.
    scripts = view.analysis.project.scripts
    has_xla = any(each.uses("torch_xla", "torch_neuronx") for each in scripts)
    led = {"tensorflow", "accelerator", "fabric", "lightning", "pytorch_lightning", "trainer"}
    if not view.only_lazy or has_xla or led & view.analysis.words:
        return
    trains = view.script.uses("torch") and any(each.sort == "loop" for each in view.steps)
    for call in [each for each in view.script.calls if trains and _puts_on_cuda(view, each)][:1]:
        message = f"`{written(call)}`: nothing of this script is on an XLA device"
        yield Match(call, message, Severity.WARNING)


def _puts_on_cuda(view: View, call: ast.Call) -> bool:
    name, last, device = view.script.called(call), last_name(call.func), keyword(call, "device")
    if name == "torch.device":
        return any(map(_says_cuda, call.args))
    by_name = device is not None and name.startswith("torch.") and _says_cuda(device)
    if by_name or name == "torch.cuda.set_device":
        return True
    if owner_of(call) is None or name.startswith("torch.cuda"):
        return False
    moves = last == "to" and any(map(_says_cuda, call.args[:1]))
    return moves or (last == "cuda" and len(call.args) <= 1)


def _says_cuda(node: ast.expr) -> bool:
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(text, str) and text.split(":")[0] == "cuda" for text in texts)


def torch_save_with_xla(view: View) -> Iterator[Match]:
    """Every process writes tensors of the XLA device."""
    statements = view.script.source.tree.body
    imports = [each for each in statements if isinstance(each, ast.Import | ast.ImportFrom)]
    if not view.xla or not any("torch_xla" in ast.unparse(each) for each in imports):
        return
    for call in view.script.calls_of("torch.save"):
        given = [view.resolved(each) or each for each in call.args[:1]]
        text = " ".join(map(ast.unparse, [*call.args[:1], *given]))
        around = [x.test for x in view.script.ancestors(call) if isinstance(x, ast.If)]
        tests = " ".join(map(ast.unparse, around)).lower()  # of the way without XLA
        moved = re.search(r"cpu|convert|gather|metadata", text)
        if given and not moved and not re.search(r"xla|tpu|cuda|neuron", tests):
            yield Match(call, "`torch.save` writes what is on the XLA device")


def xla_optimizer(view: View) -> Iterator[Match]:
    """The optimizer asks the host after each step whether gradients overflowed."""
    if xla_device(view) and view.script.calls_of("torch_xla.amp.GradScaler"):
        for call in view.script.calls_of(*_HAVE_SYNCFREE):
            yield Match(call, f"`{written(call.func)}` waits for the scaler in each step")
    for each in compiled_estimators(view):
        trainer = re.fullmatch(r"(?:.*/)?run_\w+\.py", each.text("entry_point"))
        if trainer and each.every and each.parameter("optim") is None and each.on_pytorch:
            yield each.finding("the Trainer's optimizer is left at `adamw`", "hyperparameters")
    for call, given in trainer_options(view) if view.compilers == (TRAINING_COMPILER,) else ():
        optimizer = given.get("optim", ast.Constant("adamw"))
        if isinstance(optimizer, ast.Constant) and optimizer.value != "adamw_torch_xla":
            message = f"the Trainer's optimizer is `{optimizer.value}`"
            yield Match(given.get("optim", call), message)


# ---- TensorFlow


def runs_eagerly(view: View) -> Iterator[Match]:
    """TensorFlow makes no graph of the step."""
    script = view.script
    if not script.uses("tensorflow", "keras", "tf_keras"):
        return
    for call in script.calls:
        given = keyword(call, "run_eagerly")
        if given is not None and is_constant(given, True):
            yield Match(given, "the model runs eagerly")
        every = last_name(call.func) == "run_functions_eagerly" and call.args
        if every and is_constant(call.args[0], True):
            yield Match(call, "every function runs eagerly")
    if {"make_train_function", "xla_jit", "set_jit"} & view.analysis.words:
        return
    for call in view.script.calls_of("tensorflow.GradientTape"):
        loop, around = script.around(call, *LOOPS), script.function_around(call)
        by_keras = getattr(around, "name", "") == "train_step" and script.around(call, ast.ClassDef)
        in_step = loop is not None or view.each_step(call)
        if in_step and not by_keras and not _in_graph(view, call):
            message = "the gradients of each step are recorded outside of `tf.function`"
            yield Match(loop or around or call, message)


def _in_graph(view: View, node: ast.AST) -> bool:
    """Whether a function around a node is compiled: decorated, wrapped, or called from one."""
    wraps = re.compile(r"function$|jit$|graph$")
    calls = [x for _, x in view.analysis.project.calls() if wraps.search(last_name(x.func))]
    wrapped = {last_name(each) for call in calls for each in call.args}
    pending: list[tuple[Script, ast.AST]] = [(view.script, node)]
    seen: set[ast.AST] = set()
    while pending:
        script, inner = pending.pop()
        for outer in script.ancestors(inner):
            if isinstance(outer, FUNCTIONS) and outer not in seen:
                seen.add(outer)
                decorators = " ".join(map(ast.unparse, outer.decorator_list))
                if re.search(r"\bfunction\b|jit", decorators) or outer.name in wrapped:
                    return True
                pending += view.analysis.values.calls_of(script, outer)
    return False
