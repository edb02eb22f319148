"""Values that are read from the device in each step, which makes the host wait for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compilegate.check.rules.rule import Found, View, rule, written
from compilegate.check.script.environments import of_an_environment
from compilegate.check.script.tensors import is_tensor

_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.bool"})


@rule("item-in-step")
def item_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        read = _read_by(view, call)
        if read is None or not view.each_step(call) or view.in_told_region(call):
            continue
        if not _on_the_host(view, read):
            yield Found(call, f"`{written(call)}` reads a value from the device in each step")


def _read_by(view: View, call: ast.Call) -> ast.expr | None:
    """The tensor whose value a call reads; None where it reads none."""
    if isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        receiver = call.func.value
        copied = _copied(receiver)
        if call.func.attr == "item":
            return receiver if copied is None else copied
        if call.func.attr == "numpy" and view.script.uses("tensorflow"):
            return receiver
        if call.func.attr in {"tolist", "numpy"}:
            if copied is not None:
                return copied
            return receiver if is_tensor(view.script, receiver) else None
    if len(call.args) == 1 and view.script.called(call) in _NUMBERS:
        return call.args[0] if is_tensor(view.script, call.args[0]) else None
    return None


def _copied(receiver: ast.expr) -> ast.expr | None:
    """The tensor that a chain copies to the host: `x` of `x.cpu().detach()`, which waits."""
    inner = receiver
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr == "cpu":
            return inner.func.value
        inner = inner.func.value
    return None


def _on_the_host(view: View, node: ast.expr) -> bool:
    """Whether a value is known to be no tensor of the device: NumPy's, of `.cpu()`, or what an
    environment says of its step."""
    return of_an_environment(view.script, node) or any(
        (isinstance(part, ast.Attribute) and part.attr in {"numpy", "cpu"})
        or (
            isinstance(part, ast.expr)
            and view.script.name(part).startswith(("numpy.", "random.", "math."))
        )
        for part in ast.walk(node)
    )


@rule("print-in-step")
def print_in_step(view: View) -> Iterator[Found]:
    for call in view.script.calls:
        if not _prints(view, call) or not view.each_step(call) or view.in_told_region(call):
            continue
        shown = next((part for part in _shown(call) if is_tensor(view.script, part)), None)
        if shown is not None:
            yield Found(call, f"the tensor `{written(shown)}` is printed in each step")


_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "critical"})
_PRINTERS = frozenset(
    {"builtins.print", "logging.info", "logging.debug", "logging.warning", "logging.error",
     "torch_xla.core.xla_model.master_print", "rich.print", "pprint.pprint", "tqdm.tqdm.write"}
)  # fmt: skip


def _prints(view: View, call: ast.Call) -> bool:
    if view.script.called(call) in _PRINTERS:
        return True
    if isinstance(call.func, ast.Attribute):
        receiver = call.func.value
        if call.func.attr in _LOGGING and isinstance(receiver, ast.Name):
            return "logger" in receiver.id.lower() or receiver.id in {"log", "LOG"}
        return call.func.attr in {"print", "set_postfix", "set_description", "set_postfix_str"}
    return False


def _shown(call: ast.Call) -> Iterator[ast.expr]:
    """What a call prints: its arguments, and what stands in f-strings and `%` or `format`."""
    for argument in (*call.args, *(word.value for word in call.keywords)):
        match argument:
            case ast.JoinedStr():
                for part in argument.values:
                    if isinstance(part, ast.FormattedValue):
                        yield part.value
            case ast.BinOp(op=ast.Mod(), right=ast.Tuple() as right):
                yield from right.elts
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
                yield argument.right
            case ast.Call(func=ast.Attribute(attr="format")):
                yield from argument.args
                yield from (word.value for word in argument.keywords)
            case ast.Dict():
                yield from argument.values
            case ast.Call(func=ast.Name(id="str" | "repr")) if argument.args:
                yield argument.args[0]
            case _:
                yield argument


@rule("branch-in-step")
def branch_in_step(view: View) -> Iterator[Found]:
    for node in view.script.branches:
        if not view.each_step(node) or view.in_told_region(node):
            continue
        tensor = next((part for part in _tests(node.test) if is_tensor(view.script, part)), None)
        if tensor is not None:
            said = f"the value of `{written(tensor)}` decides in each step what runs"
            yield Found(node.test, said)


def _tests(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _tests(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _tests(test.operand)
    else:
        yield test


RULES = (item_in_step, print_in_step, branch_in_step)
