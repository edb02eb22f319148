"""Inputs and code whose shapes vary: a compiler compiles each of them anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.names import is_constant, keyword, last_name
from compilegate.check.rules.base import LAZY, Match, View, written
from compilegate.check.rules.step import trainer_arguments, trainer_options
from compilegate.rules import Severity

# ---- batches of several shapes

_COLLATORS = ("DataCollatorWithPadding", "DataCollatorForTokenClassification",
              "DataCollatorForSeq2Seq", "DataCollatorForMultipleChoice")  # fmt: skip
_TOKENIZER = re.compile(r"(?:^|_)(?:tokenizer\w*|tok|processor|feature_extractor)$", re.IGNORECASE)
_EVALUATES = re.compile(
    r"^(?:eval|valid|test|infer|predict|generate|sample|demo|encode_prompt)", re.I
)


def varying_shapes(view: View) -> Iterator[Match]:
    """What makes the batches differ in shape from step to step."""
    if not view.analysis.steps.found or _covered(view):
        return
    for call in view.script.calls:
        around = (x for x in view.script.ancestors(call) if isinstance(x, ast.FunctionDef))
        message = "" if any(_EVALUATES.match(x.name) for x in around) else _varies(view, call)
        if message:
            rounded = keyword(call, "pad_to_multiple_of") is not None
            collator = view.resolved(keyword(call, "collate_fn"))
            made = isinstance(collator, ast.Call) and view.script.parent(collator) is not None
            yield Match(
                collator if collator and made else call, message, Severity.NOTE if rounded else None
            )
    for node in ast.walk(view.script.source.tree):
        given = keyword(node, "group_by_length") if isinstance(node, ast.Call) else None
        where = given or node
        if isinstance(node, ast.AnnAssign) and last_name(node.target) == "group_by_length":
            given = node.value  # group_by_length: bool = field(default=True)
            given = keyword(given, "default") if isinstance(given, ast.Call) else given
        if is_constant(given, True):
            yield Match(where, "`group_by_length` makes batches of several lengths")
    for loop in view.script.loops:
        if (view.each_step(loop) or view.region(loop) is not None) and _over_a_length(view, loop):
            over = loop.test if isinstance(loop, ast.While) else loop.iter
            yield Match(over, f"how often `{written(over)}` turns depends on the input's shape")


def _covered(view: View) -> bool:
    """Whether torch.compile expects shapes to vary, and the check is for no other compiler."""
    marked = {"mark_dynamic", "maybe_mark_dynamic"} & view.analysis.words
    regions = view.analysis.regions.found
    fixed = marked or any(is_constant(each.options.get("dynamic"), True) for each in regions)
    return bool(fixed) and not any(each in LAZY for each in view.compilers)


def _varies(view: View, call: ast.Call) -> str:
    """How a call makes shapes that vary from batch to batch; "" where it does not."""
    name = view.script.called(call)
    last = name.rsplit(".", 1)[-1] or last_name(call.func)
    padding = view.resolved(keyword(call, "padding"))
    if last in _COLLATORS:
        if padding is None and last == "DataCollatorWithPadding" and len(call.args) > 1:
            padding = call.args[1]
        options = [x for x in view.script.ancestors(call) if isinstance(x, ast.If | ast.IfExp)]
        option = any("max_length" in ast.unparse(each.test) for each in options)
        fixed = option or _pads_before(view) or (padding is not None and not _is_longest(padding))
        return "" if fixed else f"`{last}` pads each batch to its longest text"
    if padding is not None and _is_longest(padding) and _is_tokenizer(view, call):
        return "" if _by_itself(view, call) else "each batch is padded to its longest text"
    if last == "pad_sequence" and _collates(view, call):
        return "`pad_sequence` pads each batch to its longest sequence"
    if keyword(call, "collate_fn") is not None and call in view.loaders:
        return _collated(view, call)
    graphs = name in ("dgl.dataloading.GraphDataLoader", "dgl.batch")
    if graphs or name.startswith("torch_geometric.loader."):
        return "the graphs of a batch have several sizes together"
    if name.startswith("torchvision.transforms.") and last == "Compose" and call.args:
        return _images(view, call.args[0])
    if last in ("RandomShortestSize", "ScaleJitter", "ResizeShortestEdge", "padded_batch"):
        return f"`{last}` makes batches of several sizes"
    if last in ("Trainer", "Seq2SeqTrainer") and name.startswith("transformers."):
        given = {str(word.arg) for word in call.keywords}
        named = given & {"tokenizer", "processing_class"} and not given & {"data_collator", "None"}
        if named and not _pads_before(view) and "load_from_disk" not in view.analysis.words:
            return "without a `data_collator` the Trainer pads to the longest text"
    return ""


def _is_longest(padding: ast.expr) -> bool:
    """Whether padding is given as `True`, "longest" or PaddingStrategy.LONGEST."""
    enum = isinstance(padding, ast.Attribute) and padding.attr == "LONGEST"
    return enum or is_constant(padding, True, "longest")


def _pads_before(view: View) -> bool:
    """Whether a tokenizer of the files pads to a fixed length."""
    return any(
        is_constant(keyword(call, "padding"), "max_length")
        or is_constant(keyword(call, "pad_to_max_length"), True)
        for _, call in view.analysis.project.calls()
    )


def _is_tokenizer(view: View, call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr in ("pad", "batch_encode_plus", "encode"):
        called = called.value
    made = (ast.unparse(each.func) for each in view.source_calls(called))
    named = _TOKENIZER.search(last_name(called))
    return bool(named) or any(re.search(r"Tokenizer|Processor", each) for each in made)


def _by_itself(view: View, call: ast.Call) -> bool:
    """Whether a call is given one text of several, or all data at once by `batch_size=None`."""
    given = call.args[0] if call.args else None
    bound = view.script.reaching(given) if isinstance(given, ast.Name) else []
    name = getattr(view.script.function_around(call), "name", "")
    mapped = [x for x, _ in view.methods("map") if any(last_name(y) == name for y in x.args)]
    at_once = any(is_constant(keyword(each, "batch_size"), None, -1) for each in mapped)
    return at_once or any(isinstance(each.place, ast.comprehension) for each in bound)


def _collates(view: View, call: ast.Call) -> bool:
    """Whether a call is in what a loader collates with, or in a step; and nothing pads further."""
    around = view.script.function_around(call)
    text = "" if around is None else ast.unparse(around)
    if re.search(r"F\.pad\(|functional\.pad\(|max_length - ", text):
        return False
    names = [getattr(each, "name", "") or "" for each in view.script.ancestors(call)]
    given = (keyword(each, "collate_fn") for each in view.script.calls)
    used = any(each is not None and last_name(each) in names for each in given)
    named = any("collat" in name.lower() or name == "pad_batch" for name in names)
    return named or used or view.each_step(call)


def _collated(view: View, loader: ast.Call) -> str:
    """Whether the function that a loader collates with makes batches as large as their largest."""
    given = keyword(loader, "collate_fn")
    defined = view.script.definition(given) if given is not None else None
    if defined is None and given is not None:
        owner = view.analysis.values.class_of(view.script, given)
        defined = None if owner is None else owner.method("__call__")
    if given is None or defined is None or defined.is_class:
        return ""
    text = ast.unparse(defined.node)
    largest = re.search(r"\bmax\([^)]*(?:len|shape|size)|\.max\(\)|sort\(|sorted\(", text)
    fills = re.search(r"zero_\(|zeros|ones\(|full\(|\bpad\(", text)
    fixed = defined.script is view.script and "pad_sequence" in text
    grows = largest and fills and not fixed
    return f"`{written(given)}` fills each batch up to its largest" if grows else ""


def _images(view: View, steps: ast.expr) -> str:
    """Images that keep their proportions, resized by one side and not cropped."""
    parts = steps.elts if isinstance(steps, ast.List | ast.Tuple) else []
    calls = [each for each in parts if isinstance(each, ast.Call)]
    names = " ".join(last_name(each.func) for each in calls)
    if len(calls) < len(parts) or re.search(r"Crop|Pad\b|Lambda", names):
        return ""
    for each in calls:
        size = view.resolved(each.args[0] if each.args else keyword(each, "size"))
        one = isinstance(size, ast.Constant) and isinstance(size.value, int)
        single = isinstance(size, ast.Tuple | ast.List) and len(size.elts) == 1
        if last_name(each.func) == "Resize" and (one or single):
            return "the images are resized by one side and keep sizes of their own"
    return ""


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
            match [each.node for each in view.script.reaching(node) if each.kind == "value"]:
                case [ast.Attribute(attr="shape", value=owner)]:
                    return view.is_tensor(owner)
                case [ast.Subscript() | ast.Call() as bound]:
                    return _is_length(view, bound)
    return False


# ---- the last batch


def ragged_last_batch(view: View) -> Iterator[Match]:
    """The last batch of an epoch is smaller than the others."""
    lazy = any(each in LAZY for each in view.compilers)
    joined = view.analysis.joined(view.script)
    compiled = [each for each in view.analysis.regions.found if each.script in joined]
    graphs = any(_records(view, each.options.get("mode")) for each in compiled)
    modes = (keyword(each, "torch_compile_mode") for each in trainer_arguments(view))
    if not lazy and not graphs and not any(_records(view, each) for each in modes):
        return
    grave = None if view.xla or graphs or view.only_lazy else Severity.NOTE
    for call in view.loaders:
        given = view.keywords_of(call)
        if given is None or len(call.args) > 8 or "batch_sampler" in given:
            continue
        size = given.get("batch_size") or (call.args[1] if len(call.args) > 1 else None)
        if size is None or is_constant(size, 1, None):  # batches of one example
            continue
        if _keeps(view, given.get("drop_last")) and not _even(view, given):
            yield Match(call, "the training loader keeps a smaller last batch", grave)
    for call, given in trainer_options(view):
        if _keeps(view, given.get("dataloader_drop_last")):
            yield Match(call, "the Trainer keeps a smaller last batch", grave)
    for call in view.tensorflow_data("batch", "padded_batch"):
        if keyword(call, "drop_remainder") is None and len(call.args) < 2:
            yield Match(call, "the training data keep a smaller last batch")


def _keeps(view: View, dropped: ast.expr | None) -> bool:
    return dropped is None or is_constant(view.resolved(dropped), False)


def _records(view: View, mode: ast.expr | None) -> bool:
    """Whether a mode of torch.compile asks for CUDA graphs."""
    return is_constant(view.resolved(mode), "reduce-overhead", "max-autotune")


def _even(view: View, given: dict[str, ast.expr]) -> bool:
    """Whether the sampler of the script's own makes even batches, or draws without end."""
    sampler = view.resolved(given.get("sampler"))
    name = last_name(sampler.func) if isinstance(sampler, ast.Call) else ""
    if isinstance(sampler, ast.Call) and name == "DistributedSampler":
        return is_constant(keyword(sampler, "drop_last"), True)
    return bool(re.search(r"Infinite|Repeat|Random.*Replacement", name))
