"""What PyTorch/XLA needs in a script, and what keeps TensorFlow from making a graph of the step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import (
    FUNCTIONS,
    LOOPS,
    Defined,
    Script,
    is_constant,
    keyword,
    last_name,
)
from compilegate.check.rules.base import TRAINING_COMPILER, Found, Severity, View, rule, written
from compilegate.check.rules.estimators import compiled_estimators
from compilegate.check.rules.step import trainer_arguments
from compilegate.check.steps import Step
from compilegate.check.values import Kind

# ---- the end of a step

_ENDS = frozenset({"mark_step", "sync", "step_closure", "wait_device_ops"})
_XM = "torch_xla.core.xla_model."


def xla_device(view: View) -> bool:
    """Whether the script itself puts tensors on an XLA device."""
    if view.named(f"{_XM}xla_device", "torch_xla.device"):
        return True
    return view.xla and any(
        is_constant(each, "xla") for call in view.named("torch.device") for each in call.args
    )


@rule("missing-mark-step")
def missing_mark_step(view: View) -> Iterator[Found]:
    """Nothing in the loop makes PyTorch/XLA run what it has traced."""
    if not xla_device(view):
        return
    for step in view.steps:
        if step.sort == "loop" and not _ends(view, step) and _plain(view, step):
            yield Found(step.node, "nothing in this loop ends the step for PyTorch/XLA")


def _ends(view: View, step: Step) -> bool:
    """Whether the step, what it calls or what is around it has a barrier."""
    around = [each for each in step.script.ancestors(step.node) if isinstance(each, ast.With)]
    items = [item.context_expr for each in around for item in each.items]
    if any(_is_end(step.script, node) for each in items for node in ast.walk(each)):
        return True
    seen: set[ast.AST] = set()
    pending: list[tuple[Script, ast.AST]] = [(step.script, step.node)]
    while pending:
        script, outer = pending.pop()
        for node in ast.walk(outer):
            if not isinstance(node, ast.Call):
                continue
            if _is_end(script, node):
                return True
            for called in view.analysis.steps.called(script, node):
                if called.node not in seen:
                    seen.add(called.node)
                    pending.append((called.script, called.node))
    return False


def _is_end(script: Script, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name, last = script.called(node), last_name(node.func)
    if last == "optimizer_step":
        barrier = keyword(node, "barrier")
        return barrier is not None and not is_constant(barrier, False)
    if name in ("torch_xla.step", "torch_xla.compile"):
        return True
    known = "xla" in name or not name
    return last in _ENDS and (known or script.definition(node.func) is None)


def _plain(view: View, step: Step) -> bool:
    """Whether the loop goes over what is known to end no step: a DataLoader, a count."""
    node = step.node
    if not isinstance(node, ast.For):
        return True
    if re.search(r"device_loader|para_loader", ast.unparse(node.iter)):
        return False
    return (
        "range(" in ast.unparse(node.iter)
        or view.analysis.values.element(view.script, node.iter) is Kind.BATCH
    )


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
    if not script.uses("torch_xla"):
        return False
    spawns = ("torch_xla.distributed.xla_multiprocessing.spawn", "torch_xla.launch")
    started = any(each.name == "_mp_fn" for each in script.functions)
    backend = any(
        is_constant(each, "xla") for call in script.calls_by_last.get("init_process_group", ())
        for each in (*call.args, *(word.value for word in call.keywords))
    )  # fmt: skip
    return bool(script.calls_of(*spawns)) or started or backend


@rule("gradients-not-reduced")
def gradients_not_reduced(view: View) -> Iterator[Found]:
    """Each process updates by its own gradients, or by a sum, or clips before they are gathered."""
    script = view.script
    if is_distributed(script) and not _REDUCES & view.analysis.words:
        for call, _ in view.methods("step"):
            if view.each_step(call) and view.analysis.steps.is_update(script, call):
                said = f"`{written(call.func)}` updates without gathering the gradients"
                yield Found(call, said)
    divides = re.compile(r"/\s*(?:float\()?[\w.]*world_size|world_size\(\)")
    if not any(divides.search(line) for line in script.source.lines):
        for call in view.named(f"{_XM}all_reduce"):
            sums = call.args and (
                is_constant(call.args[0], "sum") or ast.unparse(call.args[0]).endswith("REDUCE_SUM")
            )
            gathers = len(call.args) == 2 and "grad" in ast.unparse(call.args[1]).lower()
            if sums and gathers and keyword(call, "scale") is None:
                yield Found(call, "the gradients are added up and not divided by the processes")
    for step in view.steps:
        calls = [each for each in ast.walk(step.node) if isinstance(each, ast.Call)]
        gathers = ("all_reduce", "reduce_gradients", "optimizer_step", "bucket_allreduce_gradients")
        gathered = [each.lineno for each in calls if last_name(each.func) in gathers]
        for call in calls if is_distributed(script) else ():
            early = gathered and call.lineno < min(gathered)
            clips = re.fullmatch(r"torch\.nn\.utils\.clip_grad_\w+", script.called(call))
            if early and (clips or last_name(call.func) == "unscale_"):
                yield Found(call, "the gradients are gathered after they were unscaled or clipped")


@rule("no-distributed-sampler")
def no_distributed_sampler(view: View) -> Iterator[Found]:
    """Each process goes over the same data."""
    shards = {"use_spmd", "accelerator", "shard", "iterabledataset", "trainer", "mark_sharding"}
    if not is_distributed(view.script) or shards & view.analysis.words:
        return
    for call in view.loaders:
        sampled = {"sampler", "batch_sampler"} & {word.arg for word in call.keywords}
        if is_constant(keyword(call, "shuffle"), True) and not sampled:
            yield Found(call, "each process goes over all of the data")


@rule("no-common-seed")
def no_common_seed(view: View) -> Iterator[Found]:
    """Nothing makes the processes start from the same weights."""
    seeds = {"manual_seed", "set_seed", "seed_everything", "set_rng_state", "load_state_dict",
             "from_pretrained", "broadcast_master_param", "fix_seed", "seed", "pretrained",
             "broadcast", "weights", "seed_all", "set_random_seed"}  # fmt: skip
    if not is_distributed(view.script) or not view.steps:
        return
    alike = {"broadcast_master_param", "load_state_dict", "from_pretrained"} & view.analysis.words
    seeded = [call for call, _ in view.methods("manual_seed", "set_rng_state")]
    own = [each for each in seeded if re.search(r"rank|ordinal|index", ast.unparse(each))]
    if own and own == seeded and not alike:
        yield Found(own[0], "each process has a seed of its own, and so weights of its own")
    if seeds & view.analysis.words:
        return
    named = (each for each in view.script.functions if each.name == "_mp_fn")
    yield Found(next(named, view.steps[0].node), "no seed makes the processes start alike")


# ---- devices


@rule("cuda-with-xla")
def cuda_with_xla(view: View) -> Iterator[Found]:
    """Something is put on CUDA where the model trains on XLA, or everything is."""
    if xla_device(view):
        for call in view.script.calls:
            name = view.script.called(call)
            scales = name in ("torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler")
            casts = name == "torch.autocast" and bool(call.args) and _says_cuda(call.args[0])
            if (scales or casts or _puts_on_cuda(view, call)) and not _is_choice(view, call):
                grave = Severity.WARNING if scales or casts else None
                yield Found(
                    call, f"`{written(call)}` is for CUDA, and the script trains on XLA", grave
                )
        return
    # Only where such a compiler was asked for by name: other scripts are right to be on CUDA.
    elsewhere = any(
        each.uses("torch_xla", "torch_neuronx") for each in view.analysis.project.scripts
    )
    led = {"tensorflow", "accelerator", "fabric", "lightning", "pytorch_lightning", "trainer"}
    if not view.asked_lazy or elsewhere or led & view.analysis.words:
        return
    if view.script.uses("torch") and any(each.sort == "loop" for each in view.steps):
        for call in view.script.calls:
            if _puts_on_cuda(view, call):
                said = f"`{written(call)}`: nothing of this script is on an XLA device"
                yield Found(call, said, Severity.WARNING)
                return


def _puts_on_cuda(view: View, call: ast.Call) -> bool:
    name, last = view.script.called(call), last_name(call.func)
    if name == "torch.device":
        return any(_says_cuda(argument) for argument in call.args)
    if name == "torch.cuda.set_device":
        return True
    device = keyword(call, "device")
    if device is not None and name.startswith("torch.") and _says_cuda(device):
        return True
    if not isinstance(call.func, ast.Attribute) or name.startswith("torch.cuda"):
        return False
    if last == "cuda":
        return len(call.args) <= 1
    return last == "to" and any(_says_cuda(argument) for argument in call.args[:1])


def _says_cuda(node: ast.expr) -> bool:
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(text, str) and text.split(":")[0] == "cuda" for text in texts)


def _is_choice(view: View, node: ast.AST) -> bool:
    """Whether an `if` or a failed import decides, so that it may be the way without XLA."""
    choices = (ast.If, ast.Try, ast.ExceptHandler, ast.Match, ast.IfExp)
    inside = any(isinstance(each, ast.IfExp) for each in ast.walk(node))
    return inside or any(isinstance(each, choices) for each in view.script.ancestors(node))


@rule("torch-save-with-xla")
def torch_save_with_xla(view: View) -> Iterator[Found]:
    """Every process writes tensors of the XLA device."""
    if not view.xla or not any(
        isinstance(each, ast.Import | ast.ImportFrom) and "torch_xla" in ast.unparse(each)
        for each in view.script.source.tree.body
    ):
        return
    for call in view.named("torch.save"):
        given = ast.unparse(call.args[0]) if call.args else "cpu"
        value = view.settled(call.args[0]) if call.args else None
        settled = "" if value is None else ast.unparse(value)
        moved = re.search(r"cpu|convert|gather|metadata", f"{given} {settled}")
        if not moved and not _without_xla(view, call):
            yield Found(call, "`torch.save` writes what is on the XLA device")


def _without_xla(view: View, node: ast.AST) -> bool:
    """Whether the script does it on the way without XLA."""
    tests = [each.test for each in view.script.ancestors(node) if isinstance(each, ast.If)]
    return any(re.search(r"xla|tpu|cuda|neuron", ast.unparse(each).lower()) for each in tests)


@rule("xla-optimizer")
def xla_optimizer(view: View) -> Iterator[Found]:
    """The optimizer asks the host after each step whether gradients overflowed."""
    if xla_device(view) and view.named("torch_xla.amp.GradScaler"):
        for call in view.script.calls:
            name = view.script.called(call)
            if re.fullmatch(r"torch\.optim\.(?:SGD|Adam|AdamW)", name):
                yield Found(call, f"`{written(call.func)}` waits for the scaler in each step")
    for each in compiled_estimators(view):
        trainer = re.fullmatch(r"(?:.*/)?run_\w+\.py", each.text("entry_point"))
        if trainer and each.every and each.parameter("optim") is None and each.on_pytorch:
            yield Found(each.where("hyperparameters"), "the Trainer's optimizer is left at `adamw`")
    if view.compilers == (TRAINING_COMPILER,):
        for call in trainer_arguments(view):
            given = view.given(call)
            if given is None or not call.keywords:
                continue
            optimizer = given.get("optim", ast.Constant("adamw"))
            if isinstance(optimizer, ast.Constant) and optimizer.value != "adamw_torch_xla":
                said = f"the Trainer's optimizer is `{optimizer.value}`"
                yield Found(given.get("optim", call), said)


# ---- TensorFlow


@rule("runs-eagerly")
def runs_eagerly(view: View) -> Iterator[Found]:
    """TensorFlow makes no graph of the step."""
    if not view.script.uses("tensorflow", "keras", "tf_keras"):
        return
    for call in view.script.calls:
        given = keyword(call, "run_eagerly")
        if given is not None and is_constant(given, True):
            yield Found(given, "the model runs eagerly")
        every = last_name(call.func) == "run_functions_eagerly" and call.args
        if every and is_constant(call.args[0], True):
            yield Found(call, "every function runs eagerly")
    if {"make_train_function", "xla_jit", "set_jit"} & view.analysis.words:
        return
    for call in view.named("tensorflow.GradientTape"):
        in_step = view.each_step(call) or any(
            isinstance(each, LOOPS) for each in view.script.ancestors(call)
        )
        around = view.script.function_around(call)
        by_keras = (
            isinstance(around, FUNCTIONS)
            and around.name == "train_step"
            and isinstance(view.script.parent(around), ast.ClassDef)
        )
        if in_step and not by_keras and not _in_graph(view, call):
            loops = [each for each in view.script.ancestors(call) if isinstance(each, LOOPS)]
            where = loops[0] if loops else around or call
            yield Found(where, "the gradients of each step are recorded outside of `tf.function`")


def _in_graph(view: View, node: ast.AST) -> bool:
    """Whether a function around a node is compiled: decorated, wrapped, or called from one."""
    pending: list[tuple[Script, ast.AST]] = [(view.script, node)]
    seen: set[ast.AST] = set()
    while pending:
        script, inner = pending.pop()
        for outer in script.ancestors(inner):
            if not isinstance(outer, FUNCTIONS) or outer in seen:
                continue
            seen.add(outer)
            decorators = " ".join(ast.unparse(each) for each in outer.decorator_list)
            if re.search(r"\bfunction\b|jit", decorators) or _is_wrapped(
                view, Defined(script, outer)
            ):
                return True
            pending += view.analysis.values.calls_of(script, outer)
    return False


def _is_wrapped(view: View, defined: Defined) -> bool:
    """Whether a function is given to `tf.function` or its like anywhere."""
    for script in view.analysis.project.scripts:
        for call in script.calls:
            wraps = re.search(r"function$|jit$|graph$", last_name(call.func))
            named = any(last_name(each) == defined.name for each in call.args)
            if wraps and named:
                return True
    return False


RULES = (
    missing_mark_step,
    gradients_not_reduced,
    no_distributed_sampler,
    no_common_seed,
    cuda_with_xla,
    torch_save_with_xla,
    xla_optimizer,
    runs_eagerly,
)
