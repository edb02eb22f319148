"""Texts that are padded to lengths that vary from batch to batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import Found, View, keyword, rule, written
from compilegate.check.script.values import origins

_COLLATORS = frozenset(
    {
        "transformers.DataCollatorWithPadding", "transformers.DataCollatorForTokenClassification",
        "transformers.DataCollatorForSeq2Seq", "transformers.DataCollatorForMultipleChoice",
    }
)  # fmt: skip
_TOKENIZER = re.compile(r"(?:^|_)(?:tokenizer|tok|processor|feature_extractor)$")


@rule("padding-longest")
def padding_longest(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if _in_evaluation(view, call):
            continue
        name = view.script.called(call)
        if name in _COLLATORS:
            yield from _collator(view, call, name)
        elif _pads(view, call) and not _one_text(view, call):
            yield from _tokenizer(call)
        elif name == "torch.nn.utils.rnn.pad_sequence" and _collates(view, call):
            said = "pad_sequence pads each batch to its longest sequence"
            yield Found(call, said)
    yield from _trainer_default(view)


def _collator(view: View, call: ast.Call, name: str) -> Iterator[Found]:
    last = name.rsplit(".", 1)[-1]
    padding = keyword(call, "padding")
    if padding is None and last == "DataCollatorWithPadding" and len(call.args) > 1:
        padding = call.args[1]
    if padding is not None and not _is_dynamic(padding):
        return
    grave = _chosen_by_option(view, call)
    said = f"{last} pads each batch to its longest text"
    yield Found(call, said, Severity.NOTE if grave else None)


def _tokenizer(call: ast.Call) -> Iterator[Found]:
    padding = keyword(call, "padding")
    if padding is None or not _is_dynamic(padding):
        return
    multiple = keyword(call, "pad_to_multiple_of")
    fixed = isinstance(multiple, ast.Constant) and isinstance(multiple.value, int)
    said = f"`padding={written(padding)}` pads each batch to its longest text"
    if fixed and isinstance(multiple, ast.Constant):
        said += f", rounded up to a multiple of {multiple.value}"
    yield Found(padding, said, Severity.NOTE if fixed else None)


def _is_dynamic(padding: ast.expr) -> bool:
    """Whether padding is given as `True` or "longest"."""
    if isinstance(padding, ast.Constant):
        return padding.value is True or padding.value == "longest"
    return isinstance(padding, ast.Attribute) and padding.attr == "LONGEST"


def _one_text(view: View, call: ast.Call) -> bool:
    """Whether a call is given one text of several by a comprehension: alone it pads nothing."""
    given = call.args[0] if call.args else None
    return isinstance(given, ast.Name) and any(
        isinstance(part, ast.Name) and part.id == given.id
        for outer in view.script.ancestors(call)
        if isinstance(outer, ast.ListComp | ast.GeneratorExp | ast.DictComp)
        for each in outer.generators
        for part in ast.walk(each.target)
    )


def _pads(view: View, call: ast.Call) -> bool:
    """Whether a call is a tokenizer's, or its `pad`."""
    called = call.func
    if keyword(call, "padding") is None:
        return False
    if isinstance(called, ast.Attribute) and called.attr in {
        "pad", "batch_encode_plus", "encode_plus", "encode",
    }:  # fmt: skip
        called = called.value
    last = called.attr if isinstance(called, ast.Attribute) else ""
    last = called.id if isinstance(called, ast.Name) else last
    if _TOKENIZER.search(last.lower()):
        return True
    return any(
        isinstance(origin.node, ast.Call)
        and re.search(r"Tokenizer|Processor", origin.script.called(origin.node))
        for origin in origins(view.script, called)
    )


_EVALUATION = re.compile(
    r"^(?:eval|valid|test|infer|predict|generate|sample|demo|encode_prompt)", re.I
)
_TRAINING = re.compile(r"train|fine_?tune|pretrain|backward|fit\b")


def _in_evaluation(view: View, call: ast.Call) -> bool:
    """Whether it is in a function that only evaluates, or in scripts that train nothing."""
    function = view.script.function_around(call)
    if function is not None and _EVALUATION.match(function.name):
        return True
    return not trains(view)


def trains(view: View) -> bool:
    """Whether anything in the check trains: a loop, a framework's, or something called so."""
    if view.analysis.steps.found:
        return True
    return bool(
        view.analysis.words & {"trainer", "trainingarguments", "fit", "backward", "accelerator"}
    )


def _collates(view: View, call: ast.Call) -> bool:
    """Whether a call is in what a loader collates with."""
    function = view.script.function_around(call)
    if function is None:
        return False
    owner = view.script.class_around(call)
    names = [function.name, *([owner.name] if owner is not None else [])]
    return any("collat" in name.lower() for name in names) or _given_as_collate(view, function.name)


def _given_as_collate(view: View, name: str) -> bool:
    return any(
        isinstance(word.value, ast.Name) and word.value.id == name
        for call in view.script.calls
        for word in call.keywords
        if word.arg == "collate_fn"
    )


def _chosen_by_option(view: View, call: ast.Call) -> bool:
    """Whether an option such as `--pad_to_max_length` leads elsewhere."""
    for outer in view.script.ancestors(call):
        if isinstance(outer, ast.If | ast.IfExp) and "max_length" in ast.unparse(outer.test):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def _trainer_default(view: View) -> Iterator[Found]:
    """A Trainer with a tokenizer and no collator pads each batch to its longest text."""
    if not view.script.uses("transformers"):
        return
    for call in view.script.calls:
        if not view.script.called(call).startswith("transformers.") or not (
            view.script.called(call).endswith("Trainer")
        ):
            continue
        tokenizer = keyword(call, "tokenizer") or keyword(call, "processing_class")
        if tokenizer is None or keyword(call, "data_collator") is not None:
            continue
        if "max_length" in _padding_words(view) or _prepared_elsewhere(view, call):
            return
        if not isinstance(tokenizer, ast.Constant) and not any(
            w.arg is None for w in call.keywords
        ):
            yield Found(call, "without a `data_collator` the Trainer pads to the longest text")


def _prepared_elsewhere(view: View, trainer: ast.Call) -> bool:
    """Whether the data come from a folder as they are: whoever wrote them chose the padding."""
    given = keyword(trainer, "train_dataset")
    return given is not None and any(
        isinstance(origin.node, ast.Call)
        and origin.script.called(origin.node).endswith("load_from_disk")
        for origin in origins(view.script, given)
    )


def _padding_words(view: View) -> frozenset[str]:
    """What any call of the check gives for `padding`."""
    return frozenset(
        word.value.value
        for script in view.analysis.project.scripts
        for call in script.calls
        for word in call.keywords
        if word.arg == "padding"
        and isinstance(word.value, ast.Constant)
        and isinstance(word.value.value, str)
    )


@rule("group-by-length")
def group_by_length(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        given = keyword(call, "group_by_length")
        if isinstance(given, ast.Constant) and given.value is True:
            yield Found(given, "`group_by_length` makes lengths that vary from batch to batch")
    for owner in view.script.tree.classes:
        if any(base.endswith("TrainingArguments") for base in view.script.bases(owner)):
            yield from _grouped_by_default(owner)


def _grouped_by_default(owner: ast.ClassDef) -> Iterator[Found]:
    """`group_by_length: bool = field(default=True)` of a class of arguments."""
    for statement in owner.body:
        if (
            not isinstance(statement, ast.AnnAssign)
            or not isinstance(statement.target, ast.Name)
            or statement.target.id != "group_by_length"
        ):
            continue
        value = statement.value
        if isinstance(value, ast.Call):
            value = keyword(value, "default")
        if isinstance(value, ast.Constant) and value.value is True:
            said = "`group_by_length`, on by default, makes lengths that vary from batch to batch"
            yield Found(statement, said)


RULES = (padding_longest, group_by_length)
