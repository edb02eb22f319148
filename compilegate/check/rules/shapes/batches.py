"""The last batch of an epoch, smaller than the others; and images of several sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from compilegate.check.findings import Severity
from compilegate.check.rules.rule import Found, View, keyword, rule
from compilegate.check.script.spliced import spliced
from compilegate.check.script.values import origins


@rule("ragged-last-batch")
def ragged_last_batch(view: View) -> Iterator[Found]:
    grave = None if view.xla else Severity.NOTE
    for call in view.named("torch.utils.data.DataLoader"):
        words = spliced(view.script, call)
        if call not in view.analysis.training_loaders or words is None or _sized(call, words):
            continue
        given = words.get("drop_last")
        off = isinstance(given, ast.Constant) and given.value is False
        if given is None or off:
            yield Found(call, "the training loader keeps a smaller last batch", grave)
    yield from _tensorflow(view)


def _sized(call: ast.Call, words: Mapping[str, ast.expr]) -> bool:
    """Whether batches are made elsewhere, or arguments are passed on."""
    if len(call.args) > 8 or "batch_sampler" in words:
        return True
    size = words.get("batch_size") or (call.args[1] if len(call.args) > 1 else None)
    return isinstance(size, ast.Constant) and size.value in {None, 1}


def _tensorflow(view: View) -> Iterator[Found]:
    if not view.script.uses("tensorflow"):
        return
    for call in view.methods("batch", "padded_batch"):
        if not isinstance(call.func, ast.Attribute) or keyword(call, "drop_remainder") is not None:
            continue
        if not _is_dataset(view, call.func.value, 0):
            continue
        function = view.script.function_around(call)
        named = f"{function.name if function is not None else ''} {_target(view, call)}".lower()
        if "train" in named or call in view.analysis.training_loaders:
            yield Found(call, "the training data keeps a smaller last batch")


def _target(view: View, node: ast.AST) -> str:
    """The name that the statement around a node binds."""
    for outer in view.script.ancestors(node):
        if isinstance(outer, ast.Assign):
            return " ".join(ast.unparse(target) for target in outer.targets)
        if isinstance(outer, ast.stmt):
            return ""
    return ""


def _is_dataset(view: View, node: ast.expr, depth: int) -> bool:
    """Whether a value comes from `tf.data.Dataset` by a chain of its methods."""
    if depth > 8:
        return False
    if view.script.name(node).startswith(("tensorflow.data.", "tensorflow_datasets.")):
        return True
    if isinstance(node, ast.Call):
        return _is_dataset(view, node.func, depth + 1)
    if isinstance(node, ast.Attribute):
        return _is_dataset(view, node.value, depth + 1)
    return any(
        origin.script is view.script
        and origin.node is not node
        and _is_dataset(view, origin.node, depth + 1)
        for origin in origins(view.script, node)
    )


_FIXED_CROPS = frozenset(
    {"CenterCrop", "RandomCrop", "RandomResizedCrop", "FiveCrop", "TenCrop", "Pad", "Lambda",
     "RandomShortestSize", "ScaleJitter", "FixedSizeCrop"}
)  # fmt: skip


@rule("resize-without-crop")
def resize_without_crop(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if not _is_compose(view, call) or not call.args:
            continue
        steps = call.args[0]
        if not isinstance(steps, ast.List | ast.Tuple):
            continue
        names = [_last(view, step) for step in steps.elts]
        if not all(names):
            continue  # something is spliced in that cannot be read
        if _FIXED_CROPS & set(names):
            continue
        for step, name in zip(steps.elts, names, strict=True):
            if name == "Resize" and isinstance(step, ast.Call) and _by_one_side(step):
                yield Found(step, "the images keep their proportions, and so sizes of their own")


def _is_compose(view: View, call: ast.Call) -> bool:
    name = view.script.called(call)
    return name.startswith("torchvision.transforms.") and name.endswith(".Compose")


def _last(view: View, step: ast.expr) -> str:
    if not isinstance(step, ast.Call):
        return ""
    return view.script.called(step).rsplit(".", 1)[-1]


def _by_one_side(resize: ast.Call) -> bool:
    size = resize.args[0] if resize.args else keyword(resize, "size")
    if isinstance(size, ast.Tuple | ast.List):
        return len(size.elts) == 1
    return isinstance(size, ast.Constant) and isinstance(size.value, int)


RULES = (ragged_last_batch, resize_without_crop)
