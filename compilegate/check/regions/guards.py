"""Which `if` makes code run now and then only: every so many steps, once, or on the way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from compilegate.check.script.project import Script

_SELDOM = re.compile(
    r"(?:log|print|disp|report|eval|val|vis|plot|save|ckpt|checkpoint|sample|summary|wandb|tb|record"
    r"|tensorboard|profile|debug|verbose)\w*_?(?:every|freq|interval|period|step|now|due|iters?)"
    r"|(?:every|should|do|need|must|time_to|is_time|maybe)_\w*(?:log|print|eval|val|save|ckpt"
    r"|checkpoint|report|sample)"
    r"|(?:^|_)(?:debug|verbose|first|last|dry_run|is_last|is_first|end_of_epoch|last_batch)(?:$|_)"
    r"|update_(?:freq|interval)"
    r"|^(?:is_|do_)?(?:eval(?:uat(?:e|ing|ion))?|val(?:id(?:at(?:e|ing|ion))?)?|testing)(?:_|$)"
)
_LEAVES = (ast.Raise, ast.Break, ast.Return)


def is_seldom(script: Script, test: ast.expr, depth: int = 0) -> bool:
    """Whether a test holds in few steps: `step % 100 == 0`, `step == last`, `if args.debug`."""
    if depth > 3:
        return False
    match test:
        case ast.BoolOp(op=ast.And()):
            return any(is_seldom(script, part, depth) for part in test.values)
        case ast.BoolOp():
            # `step % 100 == 0 or last`: one that counts makes a flag beside it rare as well.
            others = [part for part in test.values if not is_seldom(script, part, depth + 1)]
            flags = [part for part in others if isinstance(part, ast.Name | ast.Attribute)]
            return len(others) < len(test.values) and flags == others
        case ast.UnaryOp(op=ast.Not()):
            return _counts(test.operand)
        case ast.Compare():
            return _compares(script, test, depth)
        case ast.Name() | ast.Attribute():
            last = test.id if isinstance(test, ast.Name) else test.attr
            return bool(_SELDOM.search(last)) or _assigned_seldom(script, test, depth)
        case ast.Call():
            called = test.func
            last = called.id if isinstance(called, ast.Name) else ""
            last = called.attr if isinstance(called, ast.Attribute) else last
            return bool(_SELDOM.search(last)) or last in {"isnan", "isinf"}
    return False


def _counts(node: ast.expr) -> bool:
    """Whether it is a remainder: `step % 100`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _compares(script: Script, test: ast.Compare, depth: int) -> bool:
    if len(test.ops) != 1:
        return False
    op, left, right = test.ops[0], test.left, test.comparators[0]
    if any(
        _counts(part)
        for side in (left, right)
        for part in ast.walk(side)
        if isinstance(part, ast.expr)
    ):
        return not isinstance(op, ast.NotEq)
    if isinstance(op, ast.In):
        return bool(re.search(r"step|iter|epoch|batch", ast.unparse(left)))
    if isinstance(op, ast.Eq):
        return bool(re.search(r"step|iter|batch|(?:^|_)(?:i|it|idx|n)\b", ast.unparse(left)))
    written = ast.unparse(test)
    if isinstance(op, ast.Gt | ast.GtE) and re.search(r"time|elapsed|patience", written):
        return True
    # A rare value of the loss: `if loss.item() > 1e4`. What follows is not each step's work.
    return (
        isinstance(op, ast.Lt)
        and bool(re.search(r"^(?:step|it|iteration|i|batch_idx)$", ast.unparse(left)))
        and (isinstance(right, ast.Constant))
    )


def _assigned_seldom(script: Script, name: ast.expr, depth: int) -> bool:
    if not isinstance(name, ast.Name):
        return False
    bindings = script.bindings(name.id, name)
    values = [each.node for each in bindings if each.kind == "value" and each.index is None]
    return (
        bool(values)
        and len(values) == len(bindings)
        and all(
            isinstance(value, ast.expr)
            and not isinstance(value, ast.Constant)
            and is_seldom(script, value, depth + 1)
            for value in values
        )
    )


def leaves(body: list[ast.stmt]) -> bool:
    """Whether a body ends the loop or the program, so that it runs once at most."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, _LEAVES):
        return True
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in {"sys.exit", "exit", "quit", "os._exit", "os.abort"}
    return False


def skips(body: list[ast.stmt]) -> bool:
    """Whether a body goes on to the next step."""
    return bool(body) and isinstance(body[-1], ast.Continue)


def split(
    script: Script, statement: ast.If, updates: Callable[[list[ast.stmt]], bool]
) -> tuple[bool, bool]:
    """Whether the body and the else of an `if` run in few steps only.

    `if (step + 1) % accumulation == 0:` around the update is part of every step in this sense.
    """
    seldom = is_seldom(script, statement.test) and not updates(statement.body)
    body = seldom or leaves(statement.body)
    written = statement.test
    inverse = isinstance(written, ast.Compare) and isinstance(written.ops[0], ast.NotEq)
    other = inverse and any(
        _counts(part) for part in ast.walk(written) if isinstance(part, ast.expr)
    )
    return body, (other and not updates(statement.orelse)) or leaves(statement.orelse)
