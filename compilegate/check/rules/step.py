"""What stalls or slows each step, whatever compiles it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import LOOPS, Defined, is_constant, keyword, last_name
from compilegate.check.rules.base import Found, Severity, View, rule, written
from compilegate.check.rules.estimators import debugged
from compilegate.check.values import Kind

# ---- values that are read from the device

_NUMBERS = ("builtins.float", "builtins.int", "builtins.bool")
_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "critical", "exception"})
_PRINTERS = frozenset(
    {"builtins.print", "torch_xla.core.xla_model.master_print", "rich.print", "pprint.pprint",
     "tqdm.tqdm.write", "absl.logging.info"}
)  # fmt: skip
_RECORDERS = frozenset({"wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "swanlab.log"})
_RECORDING = frozenset({"log_metric", "log_metrics", "set_postfix",
                        "set_description", "set_postfix_str", "print", "summary"})  # fmt: skip


@rule("sync-in-step")
def sync_in_step(view: View) -> Iterator[Found]:
    """The host waits for a value of the device in each step, or a compiled graph ends at one."""
    reads = {call: said for call in view.script.calls if (said := _reads(view, call))}
    for call, said in reads.items():
        inner = [each for each in ast.walk(call) if each is not call and each in reads]
        around = [
            each
            for each in view.script.ancestors(call)
            if isinstance(each, ast.Call) and not reads.get(each, "prints").startswith("prints")
        ]
        prints = said.startswith("prints")
        if (around and not prints) or (prints and inner):
            continue  # the outermost read of a chain is told; a print of reads is told by them
        yield from _told(view, call, said)
    for call in view.script.calls:  # what no graph can hold, values read or not
        if view.region(call) is not None and call not in reads and _ends_a_graph(view, call):
            yield from _told(view, call, "is no part of a graph")


def _told(view: View, call: ast.Call, said: str) -> Iterator[Found]:
    region = view.region(call)
    if region is not None and not _guarded(view, call):
        surely = region.functions and region.functions[0].node is view.script.function_around(call)
        whole = is_constant(region.options.get("fullgraph"), True) and bool(surely)
        where = "in a region compiled with `fullgraph`" if whole else "inside a compiled region"
        said = f"`{written(call)}` {said} {where}"
        yield Found(call, said, Severity.ERROR if whole else None)
    elif region is None and view.each_step(call):
        yield Found(call, f"`{written(call)}` {said} in each step")


def _reads(view: View, call: ast.Call) -> str:
    """How a call makes the host wait for a tensor; "" where it does not."""
    name, func = view.script.called(call), call.func
    waits = "reads a value from the device"
    if isinstance(func, ast.Attribute):
        owner, last = func.value, func.attr
        if last == "item" and not call.args:
            return "" if view.kind(owner) in (Kind.HOST, Kind.BATCH, Kind.START) else waits
        if last in ("tolist", "numpy") and not call.args:
            kind = view.kind(owner)
            eager = last == "numpy" and kind is Kind.UNKNOWN and view.script.uses("tensorflow")
            return waits if kind is Kind.TENSOR or eager else ""
        if last == "cpu" and not call.args:
            known_elsewhere = (Kind.HOST, Kind.BATCH, Kind.MODEL, Kind.START)
            return "" if view.kind(owner) in known_elsewhere else "copies to the host"
        if last == "to" and call.args and is_constant(call.args[0], "cpu"):
            return "copies to the host" if view.is_tensor(owner) else ""
        if last in ("any", "all") and isinstance(view.script.parent(call), ast.If):
            return ""  # data-dependent says it
    if name in _NUMBERS and len(call.args) == 1:
        return waits if view.is_tensor(call.args[0]) else ""
    if name == "builtins.len" and call.args and isinstance(call.args[0], ast.Call):
        unique = last_name(call.args[0].func) in ("unique", "nonzero", "masked_select")
        return waits if unique and view.is_tensor(call.args[0]) else ""
    if name.startswith("numpy.") and last_name(func) in ("array", "asarray", "mean", "sum"):
        return waits if call.args and view.is_tensor(call.args[0]) else ""
    if name.startswith("math.") and any(view.is_tensor(each) for each in call.args):
        return waits
    if last_name(func) == "clip_grad_norm_" and is_constant(
        keyword(call, "error_if_nonfinite"), True
    ):
        return waits
    if _prints(view, call, name) and any(view.is_tensor(each) for each in _shown(call)):
        return "prints or records a tensor, and waits for its value"
    return ""


def _prints(view: View, call: ast.Call, name: str) -> bool:
    if name in _PRINTERS or name in _RECORDERS:
        return True
    if re.fullmatch(r"(?:\w+_)?print(?:0|_\w+)?", last_name(call.func)):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    last, owner = call.func.attr, written(call.func.value).lower()
    records = re.search(r"log(?:ger|ging)?$|writer|tracker|board|\btb$|\bsw$", owner)
    if last.startswith(("add_scalar", "log_", "update")) and records:
        return True
    if last in _RECORDING or re.search(r"(?:^|\.)summary$", owner):
        return True
    if last not in _LOGGING or owner == "self":  # Lightning's own log keeps the tensor
        return False
    return bool(re.search(r"log(?:ger|ging)?$|accelerator|wandb|run$|fabric|writer", owner))


def _shown(call: ast.Call) -> Iterator[ast.expr]:
    """What a call prints: its arguments, and what stands in f-strings, `%`, `format` and dicts."""
    pending: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
    while pending:
        match pending.pop():
            case ast.JoinedStr(values=values):
                pending += [each.value for each in values if isinstance(each, ast.FormattedValue)]
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(), right=right):
                pending += right.elts if isinstance(right, ast.Tuple) else [right]
            case ast.BinOp(op=ast.Add(), left=left, right=right) as sum_:
                texts = any(
                    isinstance(each, ast.Constant | ast.JoinedStr)
                    or last_name(getattr(each, "func", each)) in ("str", "format")
                    for each in (left, right)
                )
                if texts:
                    pending += [left, right]
                else:
                    yield sum_
            case ast.Call(func=ast.Attribute(attr="format")) as formatted:
                pending += [*formatted.args, *(word.value for word in formatted.keywords)]
            case ast.Call(func=ast.Name(id="str" | "repr" | "dict")) as made:
                pending += [*made.args, *(word.value for word in made.keywords)]
            case ast.Dict(values=values):
                pending += values
            case other:
                yield other


def _ends_a_graph(view: View, call: ast.Call) -> bool:
    """Whether a call inside a compiled region is none that a graph can hold."""
    name = view.script.called(call)
    if name in ("builtins.print", "torch.save", "torch.cuda.synchronize", "wandb.log",
                "builtins.breakpoint", "pdb.set_trace", "builtins.open", "torch.manual_seed",
                "random.random", "random.randint", "numpy.random.rand"):  # fmt: skip
        return True
    if name.startswith("logging.") and last_name(call.func) in _LOGGING:
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _LOGGING:
        return False
    origins = view.analysis.values.origins(view.script, call.func.value)
    made = (each.node for each in origins if isinstance(each.node, ast.Call))
    return any(last_name(each.func) in ("getLogger", "get_logger") for each in made)


def _guarded(view: View, node: ast.AST) -> bool:
    """Whether a node of a region runs only while nothing is compiled, behind a flag or a count, or
    on the way to an exception."""
    inner: ast.AST = node
    for outer in view.script.ancestors(node):
        if isinstance(outer, ast.Raise | ast.Assert | ast.Lambda | ast.ExceptHandler):
            return True
        if isinstance(outer, ast.If):
            text = ast.unparse(outer.test)
            if re.search(r"is_compiling|is_scripting|is_tracing|onnx|debug|verbose|%", text):
                return True
            if isinstance(outer.body[-1], ast.Raise) and inner in outer.body:
                return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        inner = outer
    return False


# ---- code and shapes that depend on values


@rule("data-dependent")
def data_dependent(view: View) -> Iterator[Found]:
    """What runs next, or how large a result is, depends on the values of a tensor."""
    for node in ast.walk(view.script.source.tree):
        if not isinstance(node, _DECIDES) or not _runs(view, node):
            continue
        if isinstance(node, ast.Call | ast.Subscript):
            if _sized_by_values(view, node):
                yield Found(node, f"the shape of `{written(node)}` depends on values")
        else:
            tensor = next((each for each in _tests(node.test) if _is_value(view, each)), None)
            if tensor is not None:
                yield Found(node.test, f"`{written(tensor)}` decides by a tensor's value what runs")


_DECIDES = (ast.If, ast.While, ast.IfExp, ast.Assert, ast.Call, ast.Subscript)


def _runs(view: View, node: ast.AST) -> bool:
    """Whether a node runs in each step, or is compiled."""
    region = view.region(node)
    return view.each_step(node) if region is None else not _guarded(view, node)


def _tests(test: ast.expr) -> Iterator[ast.expr]:
    match test:
        case ast.BoolOp(values=values):
            for part in values:
                yield from _tests(part)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _tests(operand)
        case _:
            yield test


def _is_value(view: View, test: ast.expr) -> bool:
    """Whether a test reads a tensor: one that is computed, not one that may be None or empty."""
    if isinstance(test, ast.Compare):
        sides = (test.left, *test.comparators)
        texts = any(isinstance(each, ast.Constant) and not isinstance(each.value, int | float)
                    for each in sides)  # fmt: skip
        plain = any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in test.ops)
        return not texts and not plain and any(_is_value(view, each) for each in sides)
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Attribute)
        and test.func.attr == "item"
    ):
        return False  # sync-in-step says it
    if isinstance(test, ast.Name):
        bound = view.script.reaching(test)
        computed = all(each.kind == "value" and not each.path for each in bound)
        made = (each.node for each in view.analysis.values.origins(view.script, test))
        containers = any(
            isinstance(x, ast.List | ast.Dict | ast.ListComp | ast.Tuple) for x in made
        )
        return bool(bound) and computed and not containers and view.is_tensor(test)
    if isinstance(test, ast.Attribute):
        return False
    if isinstance(test, ast.Call):
        defined = view.script.definition(test.func)
        if defined is not None and defined.is_class:
            return False
        return view.is_tensor(test) and not view.script.called(test).startswith("builtins.")
    return isinstance(test, ast.BinOp | ast.Subscript | ast.UnaryOp) and view.is_tensor(test)


_SIZED = frozenset({"nonzero", "unique", "masked_select", "argwhere", "unique_consecutive",
                    "boolean_mask"})  # fmt: skip


def _sized_by_values(view: View, node: ast.Call | ast.Subscript) -> bool:
    """`x.nonzero()`, and `x[mask]` that is read; setting `x[mask] = 0` keeps the shape."""
    if isinstance(node, ast.Subscript):
        read = isinstance(node.ctx, ast.Load) and _is_mask(view, node.slice)
        return read and view.is_tensor(node.value)
    name, last = view.script.called(node), last_name(node.func)
    alone = last == "where" and len(node.args) == 1 and not node.keywords
    if (last in _SIZED or alone) and name.startswith(("torch.", "tensorflow.")):
        on_host = (Kind.HOST, Kind.BATCH)
        return bool(node.args) and view.kind(node.args[0]) not in on_host
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return last in _SIZED and owner is not None and not name and view.is_tensor(owner)


def _is_mask(view: View, index: ast.expr) -> bool:
    if isinstance(index, ast.Compare):
        return any(view.is_tensor(each) for each in (index.left, *index.comparators))
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert):
        return True
    if isinstance(index, ast.BinOp) and isinstance(index.op, ast.BitAnd | ast.BitOr):
        return True
    if isinstance(index, ast.Call):
        return last_name(index.func) in ("bool", "eq", "gt", "lt", "ge", "le", "ne", "logical_not")
    if isinstance(index, ast.Name):
        bound = view.script.reaching(index)
        if re.search(r"(?:^|_)masks?$|masked", index.id):
            return view.kind(index) not in (Kind.HOST, Kind.BATCH)
        values = [each.node for each in bound if each.kind == "value" and not each.path]
        masks = [each for each in values if isinstance(each, ast.expr) and _is_mask(view, each)]
        return bool(bound) and len(masks) == len(bound)
    return False


# ---- what is done too often, or switched on


_SAVES = frozenset(
    {"torch.save", "torch_xla.core.xla_model.save", "safetensors.torch.save_file",
     "torchvision.utils.save_image", "torchvision.utils.make_grid"}
)  # fmt: skip
_SAVING = frozenset({"save_pretrained", "save_checkpoint", "save_state", "save_weights",
                     "add_histogram", "add_image", "add_images", "add_figure", "savefig",
                     "evaluate", "validate", "run_validation", "run_eval"})  # fmt: skip
_FEWEST_STEPS = 10


@rule("too-often")
def too_often(view: View) -> Iterator[Found]:
    """What now and then would do is done in each step."""
    for call in view.script.calls:
        last = last_name(call.func)
        if view.script.called(call) not in _SAVES and last not in _SAVING:
            continue
        if last == "make_grid" or not view.each_step(call) or _conditional(view, call):
            continue
        if last == "evaluate" and view.kind(call.func) is Kind.HOST:
            continue
        yield Found(call, f"`{written(call.func)}` runs in each step")
    for call in trainer_arguments(view):
        for name in ("logging_steps", "save_steps", "eval_steps"):
            value = view.settled(keyword(call, name))
            steps = value.value if isinstance(value, ast.Constant) else None
            if type(steps) is int and 0 < steps < _FEWEST_STEPS:
                yield Found(keyword(call, name) or call, f"`{name}` is {steps}")


def _conditional(view: View, call: ast.Call) -> bool:
    """Whether an `if` within the step decides; what it decides by may well be rare."""
    for outer in view.script.ancestors(call):
        if isinstance(outer, ast.If):
            return not re.search(r"rank|main_process|is_main|master", ast.unparse(outer.test))
        if isinstance(outer, (*LOOPS, ast.FunctionDef)):
            return False
    return False


def trainer_arguments(view: View) -> Iterator[ast.Call]:
    """The calls that make the arguments of Hugging Face's Trainer and its like."""
    for name, calls in view.script.calls_by_name.items():
        last = name.rsplit(".", 1)[-1]
        made = view.script.definition(calls[0].func)
        if made is not None and isinstance(made.node, ast.ClassDef):  # a class of the files' own
            bases = made.bases()
            if any(each.endswith("TrainingArguments") for each in bases):
                yield from calls
        elif last.endswith("TrainingArguments") or (
            last.endswith("Config") and name.startswith("trl.")
        ):
            yield from (call for call in calls if not name.startswith("./"))


_DEBUGGERS = {
    "torch.autograd.set_detect_anomaly": "checks every gradient",
    "torch.autograd.detect_anomaly": "checks every gradient",
    "tensorflow.debugging.enable_check_numerics": "checks every result",
    "torch.profiler.profile": "profiles all of training",
    "torch.autograd.profiler.profile": "profiles all of training",
    "torch.autograd.profiler.emit_nvtx": "profiles all of training",
    "tensorflow.profiler.experimental.start": "profiles all of training",
    "smdebug.pytorch.get_hook": "lets SageMaker Debugger read tensors",
    "smdebug.pytorch.Hook": "lets SageMaker Debugger read tensors",
    "smdebug.tensorflow.KerasHook": "lets SageMaker Debugger read tensors",
}


@rule("debugging-on")
def debugging_on(view: View) -> Iterator[Found]:
    """A profiler or a debug mode looks at every operation while the model trains."""
    for name, does in _DEBUGGERS.items():
        for call in view.named(name):
            given = call.args[0] if call.args else keyword(call, "mode")
            off = "anomaly" in name and given is not None and not is_constant(given, True)
            scheduled = keyword(call, "schedule") is not None
            optional = any(
                isinstance(each, ast.If | ast.IfExp) for each in view.script.ancestors(call)
            )
            if not (off or scheduled or optional) and view.steps:
                yield Found(call, f"`{written(call.func)}` {does}")
    for call in trainer_arguments(view):
        debug = keyword(call, "debug")
        if debug is not None and not is_constant(debug, "", None):
            yield Found(debug, "`debug` of the training arguments is on")
    yield from debugged(view)


# ---- data, devices, precision, updates


@rule("loader-workers")
def loader_workers(view: View) -> Iterator[Found]:
    """The batches are read between the steps, in the process that trains."""
    for call in view.loaders:
        given = view.given(call)
        if given is None or len(call.args) > 5 or _ready(view, call):
            continue
        workers = view.settled(given.get("num_workers"))
        if workers is None or is_constant(workers, 0):
            yield Found(call, "the loader reads its batches in the process that trains")
    yield from _tensorflow_data(view)
    for call in trainer_arguments(view):
        given = view.given(call)
        if given is not None and call.keywords and _trains_here(view):
            workers = given.get("dataloader_num_workers")
            if workers is None or is_constant(workers, 0):
                yield Found(call, "the Trainer reads its batches in the process that trains")


def _tensorflow_data(view: View) -> Iterator[Found]:
    """tf.data that is mapped in one thread, or not prefetched."""
    if not any(view.script.calls_by_last.get(each) for each in ("fit", "GradientTape")):
        return
    alone = False
    for call in view.tensorflow_data("map"):
        if keyword(call, "num_parallel_calls") is None and len(call.args) < 2:
            alone = True
            yield Found(call, "`map` prepares the batches one at a time")
    if not alone and "prefetch" not in view.analysis.words_of(view.script):
        for call in view.script.calls:
            if re.match(r"tensorflow\.data\.\w*Dataset", view.script.called(call)):
                statement = view.script.statement(call)
                first = "" if statement is None else ast.unparse(statement)[:60].lower()
                if not re.search(r"val|test|eval", first):
                    yield Found(call, "nothing prefetches the batches while a step runs")


def _trains_here(view: View) -> bool:
    return any(each.sort == "call" for step in (view.analysis.steps.found,) for each in step)


def _ready(view: View, loader: ast.Call) -> bool:
    """Whether the data are tensors that lie ready, in memory or on the device."""
    data = loader.args[0] if loader.args else keyword(loader, "dataset")
    if data is None:
        return False
    owner = view.analysis.values.class_of(view.script, data)
    made_by = None if owner is None else owner.method("__init__")
    if made_by is not None and re.search(r"\.cuda\(|\.to\(", ast.unparse(made_by.node)):
        return True
    made = view.analysis.values.origins(view.script, data)
    names = {each.script.called(each.node) for each in made if isinstance(each.node, ast.Call)}
    return any(each.endswith("TensorDataset") for each in names)


@rule("data-parallel")
def data_parallel(view: View) -> Iterator[Found]:
    """DataParallel runs the copies of the model in threads of one process."""
    for call in view.named("torch.nn.parallel.data_parallel"):
        yield Found(call, "the model is run by `data_parallel`")
    for call in view.named("torch.nn.parallel.DataParallel"):
        if view.analysis.steps.found:
            yield Found(call, "the model is wrapped in DataParallel")


_PRECISION = re.compile(
    r"autocast|bfloat16|float16|bf16|fp16|use_f16|^\.half$|mixed_precision|gradscaler|^amp$|^amp_|_amp$|_amp_"
    r"|tf32|deepspeed|matmul_precision|^fabric|fp8|^precision=$|^\.precision$|loss_scale"
    r"|load_in_[48]bit|half_precision"
)


@rule("full-precision")
def full_precision(view: View) -> Iterator[Found]:
    """Nothing in the files gives another precision than 32-bit floats."""
    steps = [step for step in view.steps if step.sort in ("loop", "call")]
    joined, words = view.analysis.joined(view.script), view.analysis.words_of(view.script)
    led = any(each.uses("accelerate", "deepspeed") for each in joined)
    asked = {"hfargumentparser", "trlparser", "parse_args_into_dataclasses"} & words
    if not steps or led or asked or any(_PRECISION.search(word) for word in words):
        return
    keras = view.script.uses("tensorflow", "keras")
    lightning = [each for each in view.script.calls_by_last.get("Trainer", ())
                 if view.script.called(each).startswith("lightning.pytorch")]  # fmt: skip
    arguments = [*trainer_arguments(view), *lightning]
    if steps[0].sort == "call" and not arguments and not keras:
        return  # another package decides
    where: ast.AST = arguments[0] if arguments and steps[0].sort == "call" else steps[0].node
    if keras and steps[0].sort == "call":
        made = (call for call in view.methods("compile") if keyword(call, "optimizer") is not None)
        where = next(made, where)
    yield Found(where, "the training runs in 32-bit floats alone")


@rule("python-optimizer")
def python_optimizer(view: View) -> Iterator[Found]:
    """An optimizer of the script's own updates one parameter after the other."""
    for owner in view.script.classes:
        bases = {each.rsplit(".", 1)[-1] for each in Defined(view.script, owner).bases()}
        if "Optimizer" not in bases:
            continue
        for function in owner.body:
            if isinstance(function, ast.FunctionDef) and function.name == "step":
                yield from _per_parameter(view, function)
    for loop in view.script.loops:  # a manual update in the step
        if isinstance(loop, ast.For) and view.each_step(loop) and _is_manual(loop):
            yield Found(loop, "the parameters are updated one by one in Python")


def _per_parameter(view: View, function: ast.FunctionDef) -> Iterator[Found]:
    text = ast.unparse(function)
    decorated = any("compile" in ast.unparse(each) for each in function.decorator_list)
    if "_foreach_" in text or "multi_tensor" in text or decorated:
        return
    for loop in ast.walk(function):
        if not isinstance(loop, ast.For) or any(
            isinstance(each, ast.For) for each in ast.walk(loop) if each is not loop
        ):
            continue
        changes = [each for each in ast.walk(loop) if _changes_in_place(each)]
        if len(changes) >= 2:
            yield Found(loop, "the optimizer updates one parameter after the other in Python")


def _changes_in_place(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    last = node.func.attr
    return last.endswith("_") and not last.startswith("_") and last not in ("zero_", "detach_")


def _is_manual(loop: ast.For) -> bool:
    text = ast.unparse(loop.iter)
    changes = [each for each in ast.walk(loop) if _changes_in_place(each)]
    uses_grad = any(
        isinstance(each, ast.Attribute) and each.attr == "grad" for each in ast.walk(loop)
    )
    return "parameters()" in text and uses_grad and len(changes) >= 2


RULES = (
    sync_in_step,
    data_dependent,
    too_often,
    debugging_on,
    loader_workers,
    data_parallel,
    full_precision,
    python_optimizer,
)
