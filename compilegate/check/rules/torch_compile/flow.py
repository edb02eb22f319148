"""Where the result of torch.compile goes, and which values come from one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from weakref import WeakKeyDictionary

from compilegate.check.regions.compiled import Compiled, Regions
from compilegate.check.rules.rule import Analysis, Found, View
from compilegate.check.script.project import Script
from compilegate.check.script.values import (
    Origin,
    Sort,
    arguments_for,
    is_a,
    origins,
    sources,
    unwrapped,
)

DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
_DEEPEST = 12


@dataclass(frozen=True)
class Behind:
    """A use of torch.compile that a value comes from, and what was wrapped around its result."""

    compiled: Compiled
    around: tuple[str, ...]
    """Canonical names of wrappers outside of it, the outermost first."""


def call_of(compiled: Compiled) -> ast.expr:
    """The call that gives back what is compiled: of `torch.compile(mode=...)(model)` the outer."""
    outer = compiled.script.parent(compiled.node)
    given = isinstance(compiled.node, ast.Call) and not compiled.node.args
    if given and isinstance(outer, ast.Call) and outer.func is compiled.node and outer.args:
        return outer
    return compiled.node


def behind(analysis: Analysis, script: Script, node: ast.expr) -> list[Behind]:
    """The results of torch.compile that a value may be, read before or wrapped by others."""
    calls = {
        call_of(each): each
        for each in analysis.regions.found
        if not each.in_place and not each.decorates
    }
    if not calls:
        return []
    found: list[Behind] = []
    seen: set[ast.AST] = set()
    pending: list[tuple[Origin, tuple[str, ...]]] = [
        (each, ()) for each in _came_from(script, node)
    ]
    while pending:
        origin, around = pending.pop()
        if origin.node in seen or len(around) > _DEEPEST:
            continue
        seen.add(origin.node)
        if origin.node in calls:
            compiled = calls[origin.node]
            if _may_be_before(compiled, script, node):
                found.append(Behind(compiled, around))
            continue
        inner = unwrapped(origin)
        if inner is not None and isinstance(origin.node, ast.Call):
            name = origin.script.called(origin.node)
            wrappers = (*around, name) if name in {DDP, FSDP} else around
            pending += [(each, wrappers) for each in _came_from(inner.script, inner.node)]
        elif isinstance(origin.node, ast.Attribute) and origin.node.attr == "module":
            value = origin.node.value
            pending += [(each, around) for each in _unwrapped_once(origin.script, value)]
    return found


def _unwrapped_once(script: Script, node: ast.expr) -> Iterator[Origin]:
    """What `ddp.module` is: the model that DistributedDataParallel was given."""
    for origin in _came_from(script, node):
        inner = unwrapped(origin)
        if inner is not None:
            yield from _came_from(inner.script, inner.node)


def _came_from(script: Script, node: ast.expr, depth: int = 0) -> Iterator[Origin]:
    """Where a value may come from, without what a name is given only further down."""
    if isinstance(node, ast.IfExp):
        yield from _came_from(script, node.body, depth)
        yield from _came_from(script, node.orelse, depth)
        return
    if not isinstance(node, ast.Name) or depth > _DEEPEST:
        yield from origins(script, node)
        return
    bound = script.bindings(node.id, node)
    if not any(each.kind == "value" and each.index is None for each in bound):
        yield from origins(script, node)
        return
    for each in bound:
        value = each.node
        if not isinstance(value, ast.expr) or comes_after(script, value, node):
            continue
        if each.kind == "value" and each.index is None:
            yield from _came_from(script, value, depth + 1)
        elif each.kind == "value":
            yield Origin(script, value, each.index)
    for each in bound:
        if each.kind == "parameter" and isinstance(each.node, ast.arg):
            for place, value in arguments_for(script, each.node):
                yield from _came_from(place, value, depth + 1)


def _may_be_before(compiled: Compiled, script: Script, node: ast.AST) -> bool:
    """Whether a compile may run before a node: not where it stands below it in one function."""
    return not (compiled.script is script and comes_after(script, call_of(compiled), node))


def comes_after(script: Script, later: ast.expr, node: ast.AST) -> bool:
    """Whether a node stands below another in the same function, and in no loop with it."""
    if script.function_around(later) is not script.function_around(node):
        return False
    if (later.lineno, later.col_offset) <= (
        getattr(node, "lineno", 0),
        getattr(node, "col_offset", 0),
    ):
        return False
    return not shared_loop(script, later, node)


def shared_loop(script: Script, one: ast.AST, other: ast.AST) -> ast.AST | None:
    """The innermost loop that both stand in."""
    outer = set(script.ancestors(one))
    for each in script.ancestors(other):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return None
        if isinstance(each, ast.For | ast.AsyncFor | ast.While) and each in outer:
            return each
    return None


def same_place(script: Script, one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions name the same variable or attribute."""
    if isinstance(one, ast.Name) and isinstance(other, ast.Name):
        if one.id != other.id:
            return False
        if one.id in {"self", "cls"}:
            return script.class_around(one) is script.class_around(other)
        bound = script.bindings(one.id, one)
        return bool(bound) and bound is script.bindings(other.id, other)
    if isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute):
        return one.attr == other.attr and same_place(script, one.value, other.value)
    return False


def same_value(script: Script, node: ast.expr, place: Script, target: ast.expr) -> bool:
    """Whether two expressions are the same object once all wrappers are taken off."""
    if script is place and same_place(script, node, target):
        return True
    mine = {
        origin.node
        for origin in sources(script, node)
        if isinstance(origin.node, ast.Call | ast.arg)
    }
    return bool(mine) and any(origin.node in mine for origin in sources(place, target))


def compiles_module(compiled: Compiled) -> bool:
    """Whether what is compiled is a module, not a function or a bound method."""
    target = compiled.target
    if isinstance(target, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    if isinstance(target, ast.ClassDef):
        return False
    defined = compiled.script.definition(target)
    if defined is not None and defined.function is not None:
        return False
    return compiled.in_place or is_a(compiled.script, target, Sort.MODEL)


class How(Enum):
    """What is done with a compiled value."""

    CALLED = auto()
    METHOD = auto()
    NEUTRAL = auto()
    ESCAPES = auto()


@dataclass(frozen=True)
class Use:
    """One place that uses a compiled value."""

    how: How
    script: Script
    node: ast.expr
    """The call, where there is one."""

    method: str = ""


_NEUTRAL = frozenset(
    {"print", "len", "isinstance", "hasattr", "getattr", "id", "type", "repr", "str", "sum",
     "callable", "bool", "setattr"}
)  # fmt: skip


def uses_of(analysis: Analysis, compiled: Compiled) -> list[Use]:
    """What the folder does with what torch.compile gave back, followed from name to name."""
    if compiled in _TRACED:
        return _TRACED[compiled]
    tracer = _Tracer(analysis)
    if compiled.in_place:
        if isinstance(compiled.target, ast.Name | ast.Attribute):
            tracer.place(compiled.script, compiled.target, compiled.node)
    else:
        tracer.value(compiled.script, call_of(compiled))
    _TRACED[compiled] = tracer.uses
    return tracer.uses


# Several rules ask for the same uses.
_TRACED: WeakKeyDictionary[Compiled, list[Use]] = WeakKeyDictionary()


class _Tracer:
    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._seen: set[ast.AST] = set()
        self.uses: list[Use] = []

    def value(self, script: Script, node: ast.expr) -> None:
        """Follow a value from the expression that it is to what is done with it."""
        if node in self._seen:
            return
        self._seen.add(node)
        outer = script.parent(node)
        match outer:
            case ast.Assign():
                for target in outer.targets:
                    self._target(script, target, outer)
            case ast.AnnAssign() | ast.NamedExpr():
                self._target(script, outer.target, outer)
            case ast.Call() if outer.func is node:
                self._add(How.CALLED, script, outer)
            case ast.Call():
                self._argument(script, node, outer)
            case ast.keyword():
                call = script.parent(outer)
                if isinstance(call, ast.Call):
                    self._argument(script, node, call, outer.arg)
            case ast.Attribute():
                self._attribute(script, outer)
            case ast.Return():
                self._returned(script, node)
            case ast.IfExp() if node is not outer.test:
                self.value(script, outer)
            case ast.If() | ast.While() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                self._add(How.NEUTRAL, script, node)
            case ast.FormattedValue() | ast.Expr() | ast.IfExp():
                self._add(How.NEUTRAL, script, node)
            case _:
                self._add(How.ESCAPES, script, node)

    def place(self, script: Script, target: ast.expr, since: ast.AST) -> None:
        """Follow what reads a variable or attribute after something was put into it."""
        for node in _reads(script, target):
            if (
                node not in self._seen
                and same_place(script, node, target)
                and not _above(script, node, since)
            ):
                self.value(script, node)
        if isinstance(target, ast.Attribute):
            for other in self._analysis.project.scripts:
                if other is not script and any(
                    isinstance(node, ast.Attribute) for node in other.loads.get(target.attr, [])
                ):
                    self._add(How.ESCAPES, other, target)
                    return

    def _target(self, script: Script, target: ast.expr, since: ast.AST) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            self.place(script, target, since)
            if isinstance(target, ast.Attribute) and not _is_self(target.value):
                self._add(How.ESCAPES, script, target)  # others may read it off that object
        else:
            self._add(How.ESCAPES, script, target)

    def _attribute(self, script: Script, node: ast.Attribute) -> None:
        outer = script.parent(node)
        if isinstance(outer, ast.Call) and outer.func is node:
            if node.attr == "__call__":
                self._add(How.CALLED, script, outer)
                return
            self.uses.append(Use(How.METHOD, script, outer, node.attr))
            if node.attr in {"to", "cuda", "train", "eval", "half", "bfloat16", "requires_grad_"}:
                self.value(script, outer)
        elif node.attr == "module":
            self.value(script, node)
        elif node.attr in {"forward", "_orig_mod"} or isinstance(node.ctx, ast.Store):
            self._add(How.NEUTRAL, script, node)
        else:
            self._add(How.NEUTRAL, script, node)

    def _argument(
        self, script: Script, node: ast.expr, call: ast.Call, word: str | None = None
    ) -> None:
        name = script.called(call)
        defined = script.definition(call.func)
        if defined is not None:
            function = defined.function
            if function is None and defined.class_ is not None:
                made = defined.script.method(defined, "__init__")
                function = made.function if made is not None else None
            if function is not None:
                parameter = _parameter(function, call, node, word)
                if parameter is not None:
                    self._parameter_reads(defined.script, function, parameter.arg)
                    return
        elif unwrapped(Origin(script, call)) is not None:
            self.value(script, call)
            return
        last = name.rsplit(".", 1)[-1]
        if name == f"builtins.{last}" and last in _NEUTRAL:
            self._add(How.NEUTRAL, script, node)
            return
        self._add(How.ESCAPES, script, node)

    def _parameter_reads(
        self,
        script: Script,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        name: str,
    ) -> None:
        scope = script.tree.scopes[function]
        for node in script.loads.get(name, []):
            if isinstance(node, ast.Name) and script.bindings(name, node) is scope.names[name]:
                self.value(script, node)

    def _returned(self, script: Script, node: ast.expr) -> None:
        function = script.function_around(node)
        callers = self._analysis.project.callers.get(function, []) if function else []
        if not callers:
            self._add(How.ESCAPES, script, node)
        for place, call in callers:
            self.value(place, call)

    def _add(self, how: How, script: Script, node: ast.expr) -> None:
        self.uses.append(Use(how, script, node))


def _reads(script: Script, target: ast.expr) -> list[ast.Name | ast.Attribute]:
    """What is read under the last part of a name."""
    if isinstance(target, ast.Name):
        return script.loads.get(target.id, [])
    return script.loads.get(target.attr, []) if isinstance(target, ast.Attribute) else []


def _above(script: Script, node: ast.expr, since: ast.AST) -> bool:
    """Whether a read stands above an assignment, or within it, where it reads the value before."""
    if since in script.ancestors(node):
        return True
    return isinstance(since, ast.stmt | ast.expr) and _precedes(script, node, since)


def _precedes(script: Script, node: ast.expr, since: ast.stmt | ast.expr) -> bool:
    if script.function_around(node) is not script.function_around(since):
        return False
    if (node.lineno, node.col_offset) > (since.lineno, since.col_offset):
        return False
    return shared_loop(script, node, since) is None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    call: ast.Call,
    node: ast.expr,
    word: str | None,
) -> ast.arg | None:
    """The parameter that an argument is given for."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if word is not None:
        every = [*positional, *function.args.kwonlyargs]
        return next((each for each in every if each.arg == word), None)
    if any(isinstance(each, ast.Starred) for each in call.args) or node not in call.args:
        return None
    index = call.args.index(node)
    if positional and positional[0].arg in {"self", "cls"}:
        index += 1
    return positional[index] if index < len(positional) else None


Once = WeakKeyDictionary[Regions, dict[Script, list[Found]]]
"""What a rule finds in a whole check, by script: for rules that start from what is compiled."""


def found_once(
    known: Once, view: View, find: Callable[[Analysis], Iterator[tuple[Script, Found]]]
) -> list[Found]:
    """The findings in the script of a view; all are looked for at the first one."""
    regions = view.analysis.regions
    if regions not in known:
        known[regions] = {}
        for script, each in find(view.analysis):
            known[regions].setdefault(script, []).append(each)
    return known[regions].get(view.script, [])
