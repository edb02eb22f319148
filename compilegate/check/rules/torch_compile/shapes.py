"""Shapes that change from step to step, and what was said about them to torch.compile."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.regions.compiled import Compiled
from compilegate.check.regions.steps import Step, Steps
from compilegate.check.rules.rule import Found, View, keyword, rule, written
from compilegate.check.rules.torch_compile.flow import How, uses_of
from compilegate.check.script.project import Script
from compilegate.check.script.values import origins, sources

_GRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})


@rule("ragged-batch")
def ragged_batch(view: View) -> Iterator[Found]:
    with_graphs = [each for each in view.analysis.regions.found if _records(each)]
    for step in view.analysis.steps.found if with_graphs else ():
        if not isinstance(step.node, ast.For | ast.While):
            continue
        compiled = next((each for each in with_graphs if _runs_in(view, each, step)), None)
        if compiled is None:
            continue
        said = compiled.options.get("mode")
        mode = written(said) if said is not None else "the backend"
        for over in _batches(step):
            for script, loader in _loaders(step.script, over):
                if script is view.script and _is_ragged(script, loader):
                    yield Found(
                        loader,
                        f"the last batch of `{written(over, 24)}` is smaller, and {mode} records "
                        "CUDA graphs",
                    )
    for call in view.named(
        "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"
    ):
        mode = _text(view.script, keyword(call, "torch_compile_mode"))
        drops = keyword(call, "dataloader_drop_last")
        if mode in _GRAPH_MODES and (drops is None or _is_false(drops)):
            yield Found(call, f"`torch_compile_mode={mode!r}` without `dataloader_drop_last=True`")


def _batches(step: Step) -> Iterator[ast.expr]:
    """What a loop takes its batches from: what it runs over, or `next(batches)` within it."""
    if isinstance(step.node, ast.For):
        yield step.node.iter
    for node in ast.walk(step.node):
        if isinstance(node, ast.Call) and step.script.called(node) == "builtins.next":
            yield from node.args[:1]


def _runs_in(view: View, compiled: Compiled, step: Step) -> bool:
    """Whether what was compiled is called in a step, or stands in one script with it."""
    if compiled.script is step.script:
        return True
    steps = view.analysis.steps
    return any(
        use.how is How.CALLED and steps.step_of(use.script, use.node) is step
        for use in uses_of(view.analysis, compiled)
    )


def _text(script: Script, node: ast.expr | None) -> str | None:
    """A string that an expression is known to be."""
    if node is None:
        return None
    found = [origin.node for origin in origins(script, node)]
    texts = [each.value for each in found if isinstance(each, ast.Constant)]
    known = len(found) == len(texts) == 1 and isinstance(texts[0], str)
    return str(texts[0]) if known else None


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _records(compiled: Compiled) -> bool:
    """Whether a use of torch.compile asks for CUDA graphs."""
    if _text(compiled.script, compiled.options.get("mode")) in _GRAPH_MODES:
        return True
    backend = _text(compiled.script, compiled.options.get("backend"))
    if backend == "cudagraphs":
        return True
    options = compiled.options.get("options")
    return isinstance(options, ast.Dict) and any(
        isinstance(name, ast.Constant)
        and name.value == "triton.cudagraphs"
        and isinstance(value, ast.Constant)
        and value.value is True
        for name, value in zip(options.keys, options.values, strict=True)
    )


def _loaders(script: Script, over: ast.expr) -> Iterator[tuple[Script, ast.Call]]:
    """The calls of DataLoader that a loop runs over."""
    pending = [(script, over)]
    seen: set[ast.AST] = set()
    while pending:
        place, node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        for origin in sources(place, node):
            found = origin.node
            if not isinstance(found, ast.Call):
                continue
            name = origin.script.called(found)
            if name.rsplit(".", 1)[-1] == "DataLoader" and not name.startswith("./"):
                yield origin.script, found
            elif name in {"builtins.enumerate", "builtins.iter"} or name.endswith("tqdm"):
                pending += [(origin.script, each) for each in found.args[:1]]
            elif name == "builtins.zip":
                pending += [(origin.script, each) for each in found.args]


def _is_ragged(script: Script, loader: ast.Call) -> bool:
    """Whether the last batch may be smaller, as far as the call shows."""
    if any(word.arg is None for word in loader.keywords):
        return False
    given = {word.arg: word.value for word in loader.keywords}
    if "batch_sampler" in given:
        return False
    size = given.get("batch_size", loader.args[1] if len(loader.args) > 1 else None)
    if size is None or (isinstance(size, ast.Constant) and size.value in {1, None}):
        return False
    if len(loader.args) > 1 and any(isinstance(each, ast.Starred) for each in loader.args):
        return False
    drops = given.get("drop_last")
    if drops is None and len(loader.args) > 8:
        drops = loader.args[8]
    return drops is None or _is_false(drops)


@rule("dynamic-unset")
def dynamic_unset(view: View) -> Iterator[Found]:
    script = view.script
    trainers = [
        call
        for call in view.named(
            "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"
        )
        if _is_true(keyword(call, "torch_compile"))
    ]
    if not view.compiled and not trainers:
        return
    varying = _varying(view)
    if varying is None:
        return
    marked = any(
        place.called(call)
        in {
            "torch._dynamo.mark_dynamic",
            "torch._dynamo.maybe_mark_dynamic",
            "torch.compiler.mark_dynamic",
        }
        for place in view.analysis.project.scripts
        for call in place.calls
    )
    for compiled in view.compiled:
        said = compiled.options.get("dynamic")
        if marked and not (said is not None and _is_false(said)):
            continue
        if not _sees_batches(view, compiled):
            continue
        if said is None or (isinstance(said, ast.Constant) and said.value is None):
            yield Found(compiled.node, f"`dynamic` is not set, and {varying}")
        elif _is_false(said):
            yield Found(compiled.node, f"`dynamic=False`, but {varying}")
    for call in trainers:
        if script.called(call):
            yield Found(call, f"`torch_compile=True`, and {varying}")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _sees_batches(view: View, compiled: Compiled) -> bool:
    """Whether what is compiled may be given the batches: a model, or a step; not a small helper."""
    target = compiled.target
    if isinstance(target, ast.FunctionDef | ast.AsyncFunctionDef):
        return any(
            view.analysis.steps.often(place, call) is not None
            for place, call in view.analysis.project.callers.get(target, [])
        ) and ("step" in target.name or target.name == "forward")
    return True


def _varying(view: View) -> str | None:
    """What makes the length of batches differ, in words; None where nothing is seen to."""
    for script in view.analysis.project.scripts:
        if script.source.path.parent != view.script.source.path.parent:
            continue
        for call in script.calls:
            name = script.called(call)
            last = name.rsplit(".", 1)[-1]
            if last in {"DataCollatorWithPadding", "DataCollatorForSeq2Seq",
                        "DataCollatorForTokenClassification"}:  # fmt: skip
                padding = _text(script, keyword(call, "padding"))
                if padding != "max_length" and keyword(call, "pad_to_multiple_of") is None:
                    return f"`{last}` pads each batch to its longest"
            if last == "pad_sequence" and name.startswith("torch.nn.utils.rnn"):
                return "`pad_sequence` pads each batch to its longest"
            padded = keyword(call, "padding")
            if (
                padded is not None
                and (_is_true(padded) or _text(script, padded) == "longest")
                and _is_tokenizer(script, call)
                and _per_batch(view.analysis.steps, script, call)
            ):
                return f"`{written(call.func)}` pads each batch to its longest"
    return None


def _is_tokenizer(script: Script, call: ast.Call) -> bool:
    said = ast.unparse(call.func).lower()
    return "tok" in said or "processor" in said or said.endswith(".pad")


def _per_batch(steps: Steps, script: Script, call: ast.Call) -> bool:
    """Whether a call pads one batch: in a collate function or a step, not a whole data set."""
    if steps.often(script, call) is not None:
        return True
    function = script.function_around(call)
    name = function.name.lower() if function is not None else ""
    return "collat" in name or "batch" in name or name == "__call__"


RULES = (ragged_batch, dynamic_unset)
