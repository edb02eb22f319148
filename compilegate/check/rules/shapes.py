"""Inputs and code whose shapes vary: a compiler compiles each of them anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import is_constant, keyword, last_name
from compilegate.check.rules.base import LAZY, Found, Severity, View, rule, written
from compilegate.check.rules.step import trainer_arguments
from compilegate.check.steps import Compiled

# ---- batches of several shapes

_COLLATORS = ("DataCollatorWithPadding", "DataCollatorForTokenClassification",
              "DataCollatorForSeq2Seq", "DataCollatorForMultipleChoice")  # fmt: skip
_TOKENIZER = re.compile(r"(?:^|_)(?:tokenizer\w*|tok|processor|feature_extractor)$", re.IGNORECASE)
_EVALUATES = re.compile(
    r"^(?:eval|valid|test|infer|predict|generate|sample|demo|encode_prompt)", re.I
)


@rule("varying-shapes")
def varying_shapes(view: View) -> Iterator[Found]:
    """What makes the batches differ in shape from step to step."""
    if not view.analysis.steps.found or _covered(view):
        return
    for call in view.script.calls:
        said = "" if _in_evaluation(view, call) else _varies(view, call)
        if said:
            rounded = keyword(call, "pad_to_multiple_of") is not None
            collator = view.settled(keyword(call, "collate_fn"))
            made = isinstance(collator, ast.Call) and view.script.parent(collator) is not None
            where = collator if made and collator is not None else call
            yield Found(where, said, Severity.NOTE if rounded else None)
    for given in _grouped(view):
        yield Found(given, "`group_by_length` makes batches of several lengths")
    for loop in view.script.loops:
        if (view.each_step(loop) or view.region(loop) is not None) and _over_a_length(view, loop):
            over = loop.test if isinstance(loop, ast.While) else loop.iter
            yield Found(over, f"how often `{written(over)}` turns depends on the input's shape")


def _covered(view: View) -> bool:
    """Whether torch.compile was told that shapes vary, and no other compiler is asked about."""
    if any(each in LAZY for each in view.compilers):
        return False
    marked = {"mark_dynamic", "maybe_mark_dynamic"} & view.analysis.words
    told = [
        each
        for each in view.analysis.regions.found
        if is_constant(each.options.get("dynamic"), True)
    ]
    return bool(marked or told)


def _varies(view: View, call: ast.Call) -> str:
    """How a call makes shapes that vary from batch to batch; "" where it does not."""
    name = view.script.called(call)
    last = name.rsplit(".", 1)[-1] or last_name(call.func)
    padding = view.settled(keyword(call, "padding"))
    if last in _COLLATORS:
        if padding is None and last == "DataCollatorWithPadding" and len(call.args) > 1:
            padding = call.args[1]
        option = any(
            isinstance(each, ast.If | ast.IfExp) and "max_length" in ast.unparse(each.test)
            for each in view.script.ancestors(call)
        )
        if padding is not None and not _is_longest(padding):
            return ""
        fixed = option or _pads_before(view)
        return "" if fixed else f"`{last}` pads each batch to its longest text"
    if _is_tokenizer(view, call) and padding is not None and _is_longest(padding):
        at_once = _one_text(view, call) or _all_at_once(view, call)
        return "" if at_once else "each batch is padded to its longest text"
    if last == "pad_sequence" and _collates(view, call) and not _pads_further(view, call):
        return "`pad_sequence` pads each batch to its longest sequence"
    if keyword(call, "collate_fn") is not None and call in view.loaders:
        return _collated(view, call)
    if name.startswith("torch_geometric.loader.") or name in (
        "dgl.dataloading.GraphDataLoader",
        "dgl.batch",
    ):
        return "the graphs of a batch have several sizes together"
    if name.startswith("torchvision.transforms.") and last == "Compose" and call.args:
        return _images(view, call.args[0])
    if last in ("RandomShortestSize", "ScaleJitter", "ResizeShortestEdge", "padded_batch"):
        return f"`{last}` makes batches of several sizes"
    if last in ("Trainer", "Seq2SeqTrainer") and name.startswith("transformers."):
        tokenizer = keyword(call, "tokenizer") or keyword(call, "processing_class")
        hidden = any(word.arg is None for word in call.keywords)
        named = tokenizer is not None and keyword(call, "data_collator") is None and not hidden
        if named and not _pads_before(view) and "load_from_disk" not in view.analysis.words:
            return "without a `data_collator` the Trainer pads to the longest text"
    return ""


def _is_longest(padding: ast.expr) -> bool:
    """Whether padding is given as `True` or "longest"."""
    if isinstance(padding, ast.Attribute):
        return padding.attr == "LONGEST"
    return is_constant(padding, True, "longest")


def _pads_before(view: View) -> bool:
    """Whether a tokenizer of the files pads to a fixed length."""
    return any(
        is_constant(keyword(call, "padding"), "max_length")
        or is_constant(keyword(call, "pad_to_max_length"), True)
        for script in view.analysis.project.scripts
        for call in script.calls
    )


def _is_tokenizer(view: View, call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr in ("pad", "batch_encode_plus", "encode"):
        called = called.value
    if _TOKENIZER.search(last_name(called)):
        return True
    made = (each.node for each in view.analysis.values.origins(view.script, called))
    return any(
        isinstance(each, ast.Call) and re.search(r"Tokenizer|Processor", ast.unparse(each.func))
        for each in made
    )


def _one_text(view: View, call: ast.Call) -> bool:
    """Whether a call is given one text of several: alone it pads nothing."""
    given = call.args[0] if call.args else None
    return isinstance(given, ast.Name) and any(
        isinstance(each.place, ast.comprehension) for each in view.script.reaching(given)
    )


def _all_at_once(view: View, call: ast.Call) -> bool:
    """Whether a function is mapped over a whole data set as one batch: `batch_size=None`."""
    around = view.script.function_around(call)
    name = getattr(around, "name", "")
    return any(
        is_constant(keyword(each, "batch_size"), None, -1)
        and any(last_name(given) == name for given in each.args)
        for each in view.methods("map")
    )


def _in_evaluation(view: View, call: ast.Call) -> bool:
    """Whether it stands in a function that only evaluates."""
    return any(
        isinstance(each, ast.FunctionDef) and _EVALUATES.match(each.name)
        for each in view.script.ancestors(call)
    )


def _collates(view: View, call: ast.Call) -> bool:
    """Whether a call is in what a loader collates with, or in a step."""
    names = [
        each.name
        for each in view.script.ancestors(call)
        if isinstance(each, ast.FunctionDef | ast.ClassDef)
    ]
    if any("collat" in name.lower() or name == "pad_batch" for name in names):
        return True
    given = (keyword(each, "collate_fn") for each in view.script.calls)
    return view.each_step(call) or any(
        last_name(each) in names for each in given if each is not None
    )


def _pads_further(view: View, call: ast.Call) -> bool:
    """Whether the function pads to a length of its own, too."""
    around = view.script.function_around(call)
    text = "" if around is None else ast.unparse(around)
    return bool(re.search(r"F\.pad\(|functional\.pad\(|max_length - ", text))


def _collated(view: View, loader: ast.Call) -> str:
    """Whether the function that a loader collates with makes batches as large as their largest."""
    given = keyword(loader, "collate_fn")
    defined = view.script.definition(given) if given is not None else None
    if defined is None and given is not None:
        owner = view.analysis.values.class_of(view.script, given)
        defined = None if owner is None else owner.method("__call__")
    if defined is None or defined.is_class:
        return ""
    text = ast.unparse(defined.node)
    largest = re.search(r"\bmax\([^)]*(?:len|shape|size)|\.max\(\)|sort\(|sorted\(", text)
    fills = re.search(r"zero_\(|zeros|ones\(|full\(|\bpad\(", text)
    told = defined.script is view.script and "pad_sequence" in text
    if not largest or not fills or told:
        return ""
    return f"`{written(given) if given is not None else ''}` fills each batch up to its largest"


def _images(view: View, steps: ast.expr) -> str:
    """Images that keep their proportions, resized by one side and not cropped."""
    if not isinstance(steps, ast.List | ast.Tuple):
        return ""
    named = [last_name(each.func) if isinstance(each, ast.Call) else "" for each in steps.elts]
    cropped = any(re.search(r"Crop|Pad$|Lambda", name) for name in named)
    for each, name in zip(steps.elts, named, strict=True):
        if name == "Resize" and isinstance(each, ast.Call) and all(named) and not cropped:
            size = view.settled(each.args[0] if each.args else keyword(each, "size"))
            one = isinstance(size, ast.Constant) and isinstance(size.value, int)
            if one or (isinstance(size, ast.Tuple | ast.List) and len(size.elts) == 1):
                return "the images are resized by one side and keep sizes of their own"
    return ""


def _grouped(view: View) -> Iterator[ast.AST]:
    for call in view.script.calls:
        given = keyword(call, "group_by_length")
        if given is not None and is_constant(given, True):
            yield given
    for node in ast.walk(view.script.source.tree):  # group_by_length: bool = field(default=True)
        if isinstance(node, ast.AnnAssign) and last_name(node.target) == "group_by_length":
            value = node.value
            if isinstance(value, ast.Call):
                value = keyword(value, "default")
            if is_constant(value, True):
                yield node


def _over_a_length(view: View, loop: ast.AST) -> bool:
    """Whether a loop in the model turns once for each place of its input."""
    around = view.script.function_around(loop)
    if getattr(around, "name", "") != "forward" and view.region(loop) is None:
        return False
    match loop:
        case ast.While(test=over) | ast.For(iter=ast.Call(func=ast.Name(id="range")) as over):
            return any(_is_length(view, each) for each in ast.walk(over))
    return False


def _is_length(view: View, node: ast.AST) -> bool:
    """`x.shape[1]`, `x.size(1)`, and a name for one; not the channels or the batch's own rows."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape", value=owner)):
            return view.is_tensor(owner)
        case ast.Call(func=ast.Attribute(attr="size", value=owner)):
            return view.is_tensor(owner)
        case ast.Name():
            bound = [each.node for each in view.script.reaching(node) if each.kind == "value"]
            if len(bound) == 1 and isinstance(bound[0], ast.Attribute):
                return bound[0].attr == "shape" and view.is_tensor(bound[0].value)
            return (
                len(bound) == 1
                and not isinstance(bound[0], ast.Name)
                and _is_length(view, bound[0])
            )
    return False


# ---- the last batch


_GRAPH_MODES = ("reduce-overhead", "max-autotune")


@rule("ragged-last-batch")
def ragged_last_batch(view: View) -> Iterator[Found]:
    """The last batch of an epoch is smaller than the others."""
    lazy = any(each in LAZY for each in view.compilers)
    joined = view.analysis.joined(view.script)
    compiled = [each for each in view.analysis.regions.found if each.script in joined]
    graphs = any(_records(view, each) for each in compiled)
    arguments = list(trainer_arguments(view))
    modes = (view.settled(keyword(each, "torch_compile_mode")) for each in arguments)
    if not lazy and not graphs and not any(is_constant(each, *_GRAPH_MODES) for each in modes):
        return
    grave = None if view.xla or graphs or view.asked_lazy else Severity.NOTE
    for call in view.loaders:
        given = view.given(call)
        if given is None or len(call.args) > 8 or "batch_sampler" in given or _of_one(call, given):
            continue
        dropped = view.settled(given.get("drop_last"))
        if (dropped is None or is_constant(dropped, False)) and not _even(view, given):
            yield Found(call, "the training loader keeps a smaller last batch", grave)
    for call in arguments:
        given = view.given(call)
        if given is not None and call.keywords:
            dropped = given.get("dataloader_drop_last")
            if dropped is None or is_constant(dropped, False):
                yield Found(call, "the Trainer keeps a smaller last batch", grave)
    yield from _tensorflow(view)


def _records(view: View, compiled: Compiled) -> bool:
    """Whether a use of torch.compile asks for CUDA graphs."""
    return is_constant(view.settled(compiled.options.get("mode")), *_GRAPH_MODES)


def _of_one(call: ast.Call, given: dict[str, ast.expr]) -> bool:
    size = given.get("batch_size") or (call.args[1] if len(call.args) > 1 else None)
    return size is None or is_constant(size, 1, None)


def _even(view: View, given: dict[str, ast.expr]) -> bool:
    """Whether the sampler of the script's own makes even batches, or draws without end."""
    sampler = view.settled(given.get("sampler"))
    name = last_name(sampler.func) if isinstance(sampler, ast.Call) else ""
    if isinstance(sampler, ast.Call) and name == "DistributedSampler":
        return is_constant(keyword(sampler, "drop_last"), True)
    return bool(re.search(r"Infinite|Repeat|Random.*Replacement", name))


def _tensorflow(view: View) -> Iterator[Found]:
    for call in view.tensorflow_data("batch", "padded_batch"):
        if keyword(call, "drop_remainder") is None and len(call.args) < 2:
            yield Found(call, "the training data keep a smaller last batch")


RULES = (varying_shapes, ragged_last_batch)
