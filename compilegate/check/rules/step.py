"""What stalls or slows each step, whatever compiles it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import (
    LOOPS,
    Defined,
    calls_in,
    is_constant,
    keyword,
    last_name,
    owner_of,
)
from compilegate.check.rules.base import Match, View, written
from compilegate.check.rules.estimators import debugged
from compilegate.check.values import Kind
from compilegate.rules import Severity

# ---- values that are read from the device

_NUMBERS = ("builtins.float", "builtins.int", "builtins.bool")
_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "critical", "exception"})
_PRINTERS = frozenset(
    {"builtins.print", "torch_xla.core.xla_model.master_print", "rich.print", "pprint.pprint",
     "tqdm.tqdm.write", "absl.logging.info", "wandb.log", "mlflow.log_metric", "swanlab.log",
     "mlflow.log_metrics"}
)  # fmt: skip
_RECORDING = frozenset({"log_metric", "log_metrics", "set_postfix",
                        "set_description", "set_postfix_str", "print", "summary"})  # fmt: skip


def sync_in_step(view: View) -> Iterator[Match]:
    """The host waits for a value of the device in each step, or a compiled graph ends at one."""
    reads: dict[ast.AST, str] = {
        x: message for x in view.script.calls if (message := _reads(view, x))
    }
    for call in view.script.calls:
        message = reads.get(call, "")
        if message == _PRINTED:  # the reads in a print are reported instead
            reported = all(each is call or each not in reads for each in calls_in(call))
        else:  # the outermost read of a chain is reported
            reported = all(reads.get(x, _PRINTED) == _PRINTED for x in view.script.ancestors(call))
        if message and reported:
            yield from _wait_found(view, call, message)
        elif not message and view.region(call) is not None and _ends_a_graph(view, call):
            yield from _wait_found(view, call, "is no part of a graph")  # values read or not


_PRINTED = "prints or records a tensor, and waits for its value"


def _wait_found(view: View, call: ast.Call, message: str) -> Iterator[Match]:
    region = view.region(call)
    if region is not None and not _guarded(view, call):
        surely = region.functions and region.functions[0].node is view.script.function_around(call)
        whole = is_constant(region.options.get("fullgraph"), True) and bool(surely)
        where = "in a region compiled with `fullgraph`" if whole else "inside a compiled region"
        message = f"`{written(call)}` {message} {where}"
        yield Match(call, message, Severity.ERROR if whole else None)
    elif region is None and view.each_step(call):
        yield Match(call, f"`{written(call)}` {message} in each step")


def _reads(view: View, call: ast.Call) -> str:
    """How a call makes the host wait for a tensor; "" where it does not."""
    name, last, owner = view.script.called(call), last_name(call.func), owner_of(call)
    first = call.args[0] if call.args else None
    decides = last in ("any", "all") and isinstance(view.script.parent(call), ast.If)
    if owner is not None and decides:
        return ""  # data-dependent says it
    if owner is not None and last == "to" and is_constant(first, "cpu"):
        return "copies to the host" if view.is_tensor(owner) else ""
    if owner is not None and first is None and last in ("item", "tolist", "numpy", "cpu"):
        kind = view.kind(owner)
        if last in ("item", "cpu"):
            waits = kind not in (Kind.HOST, Kind.BATCH, Kind.START)
            waits = waits and not (last == "cpu" and kind is Kind.MODEL)
        else:
            eager = last == "numpy" and kind is Kind.UNKNOWN and view.script.uses("tensorflow")
            waits = kind is Kind.TENSOR or eager
        copies = "copies to the host" if last == "cpu" else "reads a value from the device"
        return copies if waits else ""
    if name.startswith("math."):
        waits = any(view.is_tensor(each) for each in call.args)
    elif name in _NUMBERS and len(call.args) == 1:
        waits = view.is_tensor(call.args[0])
    elif name == "builtins.len" and isinstance(first, ast.Call):
        unique = last_name(first.func) in ("unique", "nonzero", "masked_select")
        waits = unique and view.is_tensor(first)
    elif name.startswith("numpy.") and last in ("array", "asarray", "mean", "sum"):
        waits = first is not None and view.is_tensor(first)
    elif last == "clip_grad_norm_":
        waits = is_constant(keyword(call, "error_if_nonfinite"), True)
    else:
        prints = _prints(view, call, name) and any(view.is_tensor(x) for x in _shown(call))
        return _PRINTED if prints else ""
    return "reads a value from the device" if waits else ""


def _prints(view: View, call: ast.Call, name: str) -> bool:
    last, owner = last_name(call.func), owner_of(call)
    if name in _PRINTERS or re.fullmatch(r"(?:\w+_)?print(?:0|_\w+)?", last):
        return True
    if owner is None:
        return False
    on = written(owner).lower()
    records = re.search(r"log(?:ger|ging)?$|writer|tracker|board|bar$|\btb$|\bsw$", on)
    if last in _RECORDING or re.search(r"(?:^|\.)summary$", on):
        return True
    if records and last.startswith(("add_scalar", "log_", "update")):
        return True
    logs = re.search(r"log(?:ger|ging)?$|accelerator|wandb|run$|fabric|writer", on)
    return bool(logs) and last in _LOGGING


def _shown(call: ast.Call) -> Iterator[ast.expr]:
    """What a call prints: its arguments, and what stands in f-strings, `%`, `format` and dicts."""
    pending: list[ast.expr] = [*call.args, *(word.value for word in call.keywords)]
    while pending:
        match pending.pop():
            case ast.JoinedStr(values=values):
                pending += [each.value for each in values if isinstance(each, ast.FormattedValue)]
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(), right=right):
                pending += right.elts if isinstance(right, ast.Tuple) else [right]
            case ast.BinOp(op=ast.Add(), left=left, right=right) if _is_text(left, right):
                pending += [left, right]
            case (
                ast.Call(func=ast.Attribute(attr="format") | ast.Name(id="str" | "repr" | "dict"))
            ) as made:
                pending += [*made.args, *(word.value for word in made.keywords)]
            case ast.Dict(values=values):
                pending += values
            case other:
                yield other


def _is_text(*parts: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Constant | ast.JoinedStr)
        or last_name(getattr(each, "func", each)) in ("str", "format")
        for each in parts
    )


def _ends_a_graph(view: View, call: ast.Call) -> bool:
    """Whether a call inside a compiled region is none that a graph can hold."""
    name, last, owner = view.script.called(call), last_name(call.func), owner_of(call)
    if name in ("builtins.print", "torch.save", "torch.cuda.synchronize", "wandb.log",
                "builtins.breakpoint", "pdb.set_trace", "builtins.open", "torch.manual_seed",
                "random.random", "random.randint", "numpy.random.rand"):  # fmt: skip
        return True
    if last not in _LOGGING or owner is None:
        return False
    made = {last_name(each.func) for each in view.source_calls(owner)}
    return name.startswith("logging.") or bool(made & {"getLogger", "get_logger"})


def _guarded(view: View, node: ast.AST) -> bool:
    """Whether a node of a region runs only while nothing is compiled, behind a flag or a count, or
    on the way to an exception."""
    inner: ast.AST = node
    for outer in view.script.ancestors(node):
        match outer:
            case ast.Raise() | ast.Assert() | ast.Lambda() | ast.ExceptHandler():
                return True
            case ast.If(test=test, body=[*_, last] as body):
                flag = re.search(_FLAGS, ast.unparse(test))
                if flag or (isinstance(last, ast.Raise) and inner in body):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return False
        inner = outer
    return False


_FLAGS = r"is_compiling|is_scripting|is_tracing|onnx|debug|verbose|%"


# ---- code and shapes that depend on values


def data_dependent(view: View) -> Iterator[Match]:
    """What runs next, or how large a result is, depends on the values of a tensor."""
    for node in ast.walk(view.script.source.tree):
        match node:
            case ast.Call() | ast.Subscript():
                if _runs(view, node) and _sized_by_values(view, node):
                    yield Match(node, f"the shape of `{written(node)}` depends on values")
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                tests = _tests(node.test) if _runs(view, node) else ()
                tensor = next((each for each in tests if _is_value(view, each)), None)
                if tensor is not None:
                    message = f"`{written(tensor)}` decides by a tensor's value what runs"
                    yield Match(node.test, message)


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
    match test:
        case ast.Compare():
            sides = (test.left, *test.comparators)
            texts = any(isinstance(each, ast.Constant) and not isinstance(each.value, int | float)
                        for each in sides)  # fmt: skip
            plain = any(isinstance(x, ast.Is | ast.IsNot | ast.In | ast.NotIn) for x in test.ops)
            return not texts and not plain and any(_is_value(view, each) for each in sides)
        case ast.Name():
            bound = view.script.reaching(test)
            if not bound or any(each.kind != "value" or each.path for each in bound):
                return False
            origins = view.analysis.values.origins(view.script, test)
            if any(isinstance(each.node, _CONTAINERS) for each in origins):
                return False
        case ast.Call():
            defined = view.script.definition(test.func)
            own = defined is not None and defined.is_class
            if own or view.script.called(test).startswith("builtins."):
                return False
            if isinstance(test.func, ast.Attribute) and test.func.attr == "item":
                return False  # sync-in-step says it
        case ast.BinOp() | ast.Subscript() | ast.UnaryOp():
            pass
        case _:
            return False
    return view.is_tensor(test)


_CONTAINERS = (ast.List, ast.Dict, ast.ListComp, ast.Tuple)
_SIZED = frozenset({"nonzero", "unique", "masked_select", "argwhere", "unique_consecutive",
                    "boolean_mask"})  # fmt: skip


def _sized_by_values(view: View, node: ast.Call | ast.Subscript) -> bool:
    """`x.nonzero()`, and `x[mask]` that is read; setting `x[mask] = 0` keeps the shape."""
    if isinstance(node, ast.Subscript):
        read = isinstance(node.ctx, ast.Load) and _is_mask(view, node.slice)
        return read and view.is_tensor(node.value)
    name, last, owner = view.script.called(node), last_name(node.func), owner_of(node)
    alone = last == "where" and len(node.args) == 1 and not node.keywords
    if (last in _SIZED or alone) and name.startswith(("torch.", "tensorflow.")):
        return bool(node.args) and view.kind(node.args[0]) not in (Kind.HOST, Kind.BATCH)
    return last in _SIZED and owner is not None and not name and view.is_tensor(owner)


def _is_mask(view: View, index: ast.expr) -> bool:
    match index:
        case ast.Compare():
            return any(view.is_tensor(each) for each in (index.left, *index.comparators))
        case ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            return True
        case ast.Call(func=func):
            return last_name(func) in ("bool", "eq", "gt", "lt", "ge", "le", "ne", "logical_not")
        case ast.Name(id=name) if re.search(r"(?:^|_)masks?$|masked", name):
            return view.kind(index) not in (Kind.HOST, Kind.BATCH)
        case ast.Name():
            bound = view.script.reaching(index)
            values = [each.node for each in bound if each.kind == "value" and not each.path]
            masks = [each for each in values if isinstance(each, ast.expr) and _is_mask(view, each)]
            return bool(bound) and len(masks) == len(bound)
    return False


# ---- what is done too often, or switched on


_SAVES = frozenset(
    {"torch.save", "torch_xla.core.xla_model.save", "safetensors.torch.save_file",
     "torchvision.utils.save_image"}
)  # fmt: skip
_SAVING = frozenset({"save_pretrained", "save_checkpoint", "save_state", "save_weights",
                     "add_histogram", "add_image", "add_images", "add_figure", "savefig",
                     "evaluate", "validate", "run_validation", "run_eval"})  # fmt: skip
_FEWEST_STEPS = 10


def too_often(view: View) -> Iterator[Match]:
    """What now and then would do is done in each step."""
    for call in view.script.calls:
        last = last_name(call.func)
        saves = last in _SAVING or view.script.called(call) in _SAVES
        host = last == "evaluate" and view.kind(call.func) is Kind.HOST
        if saves and not host and view.each_step(call) and not _conditional(view, call):
            yield Match(call, f"`{written(call.func)}` runs in each step")
    for call in trainer_arguments(view):
        for name in ("logging_steps", "save_steps", "eval_steps"):
            value = view.resolved(keyword(call, name))
            if value is not None and is_constant(value, *range(1, _FEWEST_STEPS)):
                yield Match(keyword(call, name) or call, f"`{name}` is {ast.unparse(value)}")


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
        made = view.script.definition(calls[0].func)  # a class of the files' own, or a library's
        bases = made.bases() if made is not None else {name}
        trl = made is None and name.startswith("trl.") and name.endswith("Config")
        if trl or any(each.endswith("TrainingArguments") for each in bases):
            yield from calls


def trainer_options(view: View) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """The same with what they are given, where all of that is known."""
    for call in trainer_arguments(view):
        given = view.keywords_of(call)
        if given is not None and call.keywords:
            yield call, given


_DEBUGGERS = {
    "checks every gradient": ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"),
    "checks every result": ("tensorflow.debugging.enable_check_numerics",),
    "profiles all of training": ("torch.profiler.profile", "torch.autograd.profiler.profile",
                                 "torch.autograd.profiler.emit_nvtx",
                                 "tensorflow.profiler.experimental.start"),
    "lets SageMaker Debugger read tensors": ("smdebug.pytorch.get_hook", "smdebug.pytorch.Hook",
                                             "smdebug.tensorflow.KerasHook"),
}  # fmt: skip


def debugging_on(view: View) -> Iterator[Match]:
    """A profiler or a debug mode looks at every operation while the model trains."""
    for does, names in _DEBUGGERS.items():
        for call in view.script.calls_of(*names) if view.steps else ():
            given = call.args[0] if call.args else keyword(call, "mode")
            anomaly = last_name(call.func).endswith("detect_anomaly")
            off = anomaly and given is not None and not is_constant(given, True)
            scheduled = keyword(call, "schedule") is not None
            optional = view.script.around(call, ast.If, ast.IfExp) is not None
            if not (off or scheduled or optional):
                yield Match(call, f"`{written(call.func)}` {does}")
    for call in trainer_arguments(view):
        debug = keyword(call, "debug")
        if debug is not None and not is_constant(debug, "", None):
            yield Match(debug, "`debug` of the training arguments is on")
    yield from debugged(view)


# ---- data, devices, precision, updates


def loader_workers(view: View) -> Iterator[Match]:
    """The batches are read between the steps, in the process that trains."""
    for call in view.loaders:
        given = view.keywords_of(call)
        if given is None or len(call.args) > 5 or _ready(view, call):
            continue
        if _is_off(view, given.get("num_workers")):
            yield Match(call, "the loader reads its batches in the process that trains")
    yield from _tensorflow_data(view)
    for call, given in trainer_options(view):
        runs = any(step.sort == "call" for step in view.analysis.steps.found)
        if runs and _is_off(view, given.get("dataloader_num_workers")):
            yield Match(call, "the Trainer reads its batches in the process that trains")


def _is_off(view: View, workers: ast.expr | None) -> bool:
    return workers is None or is_constant(view.resolved(workers), 0)


def _tensorflow_data(view: View) -> Iterator[Match]:
    """tf.data that is mapped in one thread, or not prefetched."""
    if not any(view.script.calls_by_last.get(each) for each in ("fit", "GradientTape")):
        return
    mapped = [call for call in view.tensorflow_data("map") if len(call.args) < 2]
    alone = [call for call in mapped if keyword(call, "num_parallel_calls") is None]
    yield from (Match(call, "`map` prepares the batches one at a time") for call in alone)
    if not alone and "prefetch" not in view.analysis.words_of(view.script):
        for call in view.script.calls:
            statement = view.script.statement(call)
            first = "" if statement is None else ast.unparse(statement)[:60].lower()
            made = re.match(r"tensorflow\.data\.\w*Dataset", view.script.called(call))
            if made and not re.search(r"val|test|eval", first):
                yield Match(call, "nothing prefetches the batches while a step runs")


def _ready(view: View, loader: ast.Call) -> bool:
    """Whether the data are tensors that lie ready, in memory or on the device."""
    data = loader.args[0] if loader.args else keyword(loader, "dataset")
    if data is None:
        return False
    owner = view.analysis.values.class_of(view.script, data)
    made_by = None if owner is None else owner.method("__init__")
    if made_by is not None and re.search(r"\.cuda\(|\.to\(", ast.unparse(made_by.node)):
        return True
    made = view.analysis.values.source_calls(view.script, data)
    return any(script.called(call).endswith("TensorDataset") for script, call in made)


def data_parallel(view: View) -> Iterator[Match]:
    """DataParallel runs the copies of the model in threads of one process."""
    for call in view.script.calls_of("torch.nn.parallel.data_parallel"):
        yield Match(call, "the model is run by `data_parallel`")
    for call in view.script.calls_of("torch.nn.parallel.DataParallel"):
        if view.analysis.steps.found:
            yield Match(call, "the model is wrapped in DataParallel")


_PRECISION = re.compile(
    r"autocast|bfloat16|float16|bf16|fp16|use_f16|^\.half$|mixed_precision|gradscaler|^amp$|^amp_|_amp$|_amp_"
    r"|tf32|deepspeed|matmul_precision|^fabric|fp8|^precision=$|^\.precision$|loss_scale"
    r"|load_in_[48]bit|half_precision"
)


def full_precision(view: View) -> Iterator[Match]:
    """Nothing in the files gives another precision than 32-bit floats."""
    steps = [step for step in view.steps if step.sort in ("loop", "call")]
    joined, words = view.analysis.joined(view.script), view.analysis.words_of(view.script)
    led = any(each.uses("accelerate", "deepspeed") for each in joined)
    parsed = {"hfargumentparser", "trlparser", "parse_args_into_dataclasses"} & words
    if not steps or led or parsed or any(_PRECISION.search(word) for word in words):
        return
    places: list[ast.AST] = [steps[0].node]
    if steps[0].sort == "call":  # a framework trains: where its precision is set
        trainers = view.script.calls_by_last.get("Trainer", ())
        lightning = [x for x in trainers if view.script.called(x).startswith("lightning.pytorch")]
        keras = view.script.uses("tensorflow", "keras")
        compiles = [x for x, _ in view.methods("compile") if keras and (x.args or x.keywords)]
        places = [*compiles, *trainer_arguments(view), *lightning, *(places if keras else [])]
    if places:  # else another package decides
        yield Match(places[0], "the training runs in 32-bit floats alone")


def python_optimizer(view: View) -> Iterator[Match]:
    """An optimizer of the script's own updates one parameter after the other."""
    for function in view.script.functions:
        owner = view.script.parent(function)
        own = function.name == "step" and isinstance(owner, ast.ClassDef)
        bases = Defined(view.script, owner).bases() if own else ()
        if any(each.rsplit(".", 1)[-1] == "Optimizer" for each in bases):
            yield from _per_parameter(function)
    for loop in view.script.loops:  # a manual update in the step
        if isinstance(loop, ast.For) and view.each_step(loop):
            reads = any(isinstance(x, ast.Attribute) and x.attr == "grad" for x in ast.walk(loop))
            if "parameters()" in ast.unparse(loop.iter) and reads and _changes(loop) >= 2:
                yield Match(loop, "the parameters are updated one by one in Python")


def _per_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Match]:
    text = ast.unparse(function)
    decorated = any("compile" in ast.unparse(each) for each in function.decorator_list)
    if "_foreach_" in text or "multi_tensor" in text or decorated:
        return
    for loop in ast.walk(function):
        inner = [each for each in ast.walk(loop) if isinstance(each, ast.For)]
        if inner == [loop] and _changes(loop) >= 2:
            yield Match(loop, "the optimizer updates one parameter after the other in Python")


def _changes(loop: ast.AST) -> int:
    """How many calls within a loop change tensors in place, such as `p.add_(...)`."""
    names = [last_name(each.func) for each in calls_in(loop) if owner_of(each) is not None]
    names = (name for name in names if name.endswith("_") and name[0] != "_")
    return sum(name not in ("zero_", "detach_") for name in names)
