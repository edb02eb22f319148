"""Which findings can be mended without a judgement, and by what change. In doubt: none."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from compilegate.check.regions.compiled import Compiled
from compilegate.check.rules.rule import View, keyword
from compilegate.check.rules.table import BY_NAME
from compilegate.check.rules.torch_compile.flow import behind, call_of
from compilegate.check.rules.torch_compile.options import MODES
from compilegate.check.script.project import Script
from compilegate.check.script.values import class_of, sources


class Change(Enum):
    """What is done to a piece of a script."""

    COMPILE_IN_PLACE = auto()
    """`torch.compile(x, ...)` becomes `x.compile(...)`."""

    ASSIGN_BACK = auto()
    """`torch.compile(f)` becomes `f = torch.compile(f)`."""

    CALL_ITSELF = auto()
    """`x.forward(...)` becomes `x(...)`."""

    PLAIN_KEYS = auto()
    """`x.state_dict()` becomes `getattr(x, "_orig_mod", x).state_dict()`."""

    TENSOR_RATE = auto()
    """`lr=0.1` becomes `lr=torch.tensor(0.1)`."""

    NAME_MODE = auto()
    """`"reduce_overhead"` becomes `"reduce-overhead"`, and gets its keyword."""


@dataclass(frozen=True)
class Span:
    """Where a piece begins and ends: lines from 1, columns from 0 in characters."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Edit:
    """One change at one place."""

    rule: str
    change: Change
    span: Span
    text: str = ""
    """What the change needs: the mode's right name, or what torch is called in the script."""


Plan = Callable[[View, ast.AST], Edit | None]


def span_of(script: Script, node: ast.expr | ast.stmt) -> Span:
    """Where a node stands. The syntax tree counts bytes; people and LibCST count characters."""
    end_line = node.end_lineno or node.lineno
    return Span(
        node.lineno,
        _characters(script, node.lineno, node.col_offset),
        end_line,
        _characters(script, end_line, node.end_col_offset or 0),
    )


def _characters(script: Script, line: int, offset: int) -> int:
    text = script.source.lines[line - 1]
    if text.isascii():
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


def _use(view: View, call: ast.AST) -> Compiled | None:
    return next((each for each in view.compiled if call_of(each) is call), None)


def _discarded(view: View, node: ast.AST) -> Edit | None:
    compiled = _use(view, node)
    if compiled is None or not isinstance(node, ast.Call) or node is not compiled.node:
        return None
    if not isinstance(view.script.parent(node), ast.Expr) or not _plain_call(node):
        return None
    target = compiled.target
    if not isinstance(target, ast.expr) or not _is_plain(target):
        return None
    if _surely_module(view.script, target):
        return Edit("compiled-discarded", Change.COMPILE_IN_PLACE, span_of(view.script, node))
    defined = view.script.definition(target)
    at_top = isinstance(view.script.tree.scope_of(node).node, ast.Module)
    if (
        isinstance(target, ast.Name)
        and defined is not None
        and defined.function is not None
        and defined.script is view.script
        and at_top
    ):
        return Edit("compiled-discarded", Change.ASSIGN_BACK, span_of(view.script, node))
    return None


def _to_self(view: View, node: ast.AST) -> Edit | None:
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    call, target = node.value, node.targets[0]
    if not isinstance(call, ast.Call) or not _plain_call(call) or not isinstance(target, ast.Name):
        return None
    given = call.args[0]
    if not isinstance(given, ast.Name) or given.id != target.id:
        return None
    owner = view.script.class_around(node)
    function = view.script.function_around(node)
    if owner is None or function is None or not _is_module_class(view.script, owner):
        return None
    if "compile" in {each.name for each in owner.body if isinstance(each, ast.FunctionDef)}:
        return None
    return Edit("compiled-to-self", Change.COMPILE_IN_PLACE, span_of(view.script, node))


def _plain_call(call: ast.Call) -> bool:
    """`torch.compile(x, name=...)` with nothing unpacked."""
    return len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)


def _is_plain(node: ast.expr) -> bool:
    """A variable, or an attribute of one: what may be written twice without running twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_module_class(script: Script, owner: ast.ClassDef) -> bool:
    return bool(script.bases(owner) & _MODULES)


_MODULES = frozenset(
    {"torch.nn.Module", "lightning.pytorch.LightningModule", "transformers.PreTrainedModel"}
)
_MAKERS = re.compile(
    r"^torch\.nn\.(?:Sequential|ModuleList|Linear|Transformer\w*|LSTM|GRU|RNN|Conv\dd)$"
    r"|^torchvision\.models\.\w+$|^timm\.create_model$|^transformers\.\w+\.from_pretrained$"
)


def _surely_module(script: Script, node: ast.expr) -> bool:
    """Whether every source of a value that can be read is a module with torch's own `compile`."""
    owner = class_of(script, node)
    if owner is not None and owner.class_ is not None:
        has_own = owner.script.method(owner, "compile") is not None
        return _is_module_class(owner.script, owner.class_) and not has_own
    found = sources(script, node)
    return bool(found) and all(
        isinstance(each.node, ast.Call) and bool(_MAKERS.match(each.script.called(each.node)))
        for each in found
    )


def _forward(view: View, node: ast.AST) -> Edit | None:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "forward"
        and _is_plain(node.func.value)
    ):
        return Edit("past-the-wrapper", Change.CALL_ITSELF, span_of(view.script, node))
    return None


def _keys(view: View, node: ast.AST) -> Edit | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    found = behind(view.analysis, view.script, owner)
    if not _is_plain(owner) or not found or any(each.around for each in found):
        return None
    bound = view.script.bindings("getattr", owner)
    if bound:
        return None
    return Edit("orig-mod-keys", Change.PLAIN_KEYS, span_of(view.script, node))


_TENSOR_RATES = frozenset({"torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD"})


def _rate(view: View, node: ast.AST) -> Edit | None:
    if not isinstance(node, ast.Call) or view.script.called(node) not in _TENSOR_RATES:
        return None
    words = {word.arg for word in node.keywords}
    rate = keyword(node, "lr")
    if rate is None or words & {None, "foreach", "fused", "capturable", "differentiable"}:
        return None
    if not isinstance(rate, ast.Constant) or not isinstance(rate.value, float):
        return None
    torch = _name_of_torch(view.script)
    if torch is None:
        return None
    return Edit("float-rate", Change.TENSOR_RATE, span_of(view.script, rate), torch)


def _name_of_torch(script: Script) -> str | None:
    """What `torch` is called at the top of a script."""
    for name, bound in script.tree.module.names.items():
        if len(bound) == 1 and bound[0].kind == "import" and bound[0].target == "torch":
            return name
    return None


def _mode(view: View, node: ast.AST) -> Edit | None:
    if isinstance(node, ast.Call) and len(node.args) == 2:
        node = node.args[1]
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    meant = node.value.strip().lower().replace("_", "-").replace(" ", "-")
    if meant not in MODES:
        return None
    outer = view.script.parent(node)
    if isinstance(outer, ast.Call) and keyword(outer, "mode") not in {None, node}:
        return None
    return Edit("compile-options", Change.NAME_MODE, span_of(view.script, node), meant)


PLANS: dict[str, Plan] = {
    "compiled-discarded": _discarded,
    "compiled-to-self": _to_self,
    "past-the-wrapper": _forward,
    "orig-mod-keys": _keys,
    "float-rate": _rate,
    "compile-options": _mode,
}
"""The rules that have a fix. What a plan does not recognise stays a finding."""


def edits(view: View, wanted: frozenset[tuple[str, int, int]]) -> Iterator[Edit]:
    """The edits of one script for findings: by rule, line and column as they are reported."""
    for name, plan in PLANS.items():
        if not any(rule == name for rule, _, _ in wanted):
            continue
        for found in BY_NAME[name].find(view):
            line = getattr(found.node, "lineno", 1)
            column = getattr(found.node, "col_offset", 0) + 1
            if (name, line, column) in wanted:
                edit = plan(view, found.node)
                if edit is not None:
                    yield edit
