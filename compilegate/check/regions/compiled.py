"""Where `torch.compile` is called, with what, and which functions of the folder it compiles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from compilegate.check.regions.steps import called_functions
from compilegate.check.script.project import Defined, Project, Script
from compilegate.check.script.values import Sort, class_of, is_a

COMPILERS = frozenset({"torch.compile", "compilegate.job.compile"})
_OUTSIDE = frozenset(
    {"torch.compiler.disable", "torch.compiler.allow_in_graph", "torch._dynamo.disallow_in_graph",
     "torch.jit.ignore", "torch.jit.unused", "torch.compiler.substitute_in_graph"}
)  # fmt: skip


@dataclass(eq=False)
class Compiled:
    """One use of `torch.compile`: a call, a decorator, or `module.compile()`."""

    script: Script
    node: ast.expr
    """The call, or a decorator without one."""

    target: ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    """What is compiled."""

    options: dict[str, ast.expr]
    in_place: bool = False
    """`module.compile()`, which compiles the module itself and returns nothing."""

    decorates: bool = False
    functions: list[Defined] = field(default_factory=list)
    """The functions of the folder in the compiled region."""


class Regions:
    """Every use of torch.compile, and the statements inside the compiled regions."""

    def __init__(self, project: Project) -> None:
        self.found: list[Compiled] = []
        self._inside: dict[ast.AST, Compiled] = {}
        self._forwards: set[ast.AST] = set()
        for script in project.scripts:
            self.found += uses(script)
            self._forwards |= {
                statement
                for owner in script.tree.classes
                if "torch.nn.Module" in script.bases(owner)
                or "lightning.pytorch.LightningModule" in script.bases(owner)
                for statement in owner.body
                if isinstance(statement, ast.FunctionDef) and statement.name == "forward"
            }
        for compiled in self.found:
            compiled.functions = list(_reached(_roots(compiled)))
            for defined in compiled.functions:
                self._inside.setdefault(defined.node, compiled)

    def around(self, script: Script, node: ast.AST) -> Compiled | None:
        """The use of torch.compile whose region a node is in."""
        for outer in script.ancestors(node):
            if outer in self._inside:
                owner = self._inside[outer]
                return None if self._is_decoration(outer, node, script) else owner
            if isinstance(outer, ast.ClassDef):
                return None
        return None

    def in_forward(self, script: Script, node: ast.AST) -> bool:
        """Whether a node is in the forward of a model, which is what people compile."""
        function = script.function_around(node)
        return function in self._forwards

    @staticmethod
    def _is_decoration(function: ast.AST, node: ast.AST, script: Script) -> bool:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        chain = {node, *script.ancestors(node)}
        return any(decorator in chain for decorator in function.decorator_list)


def uses(script: Script) -> Iterator[Compiled]:
    """Every use of torch.compile in a script."""
    decorators: set[ast.AST] = set()
    for function in (*script.tree.functions, *script.tree.classes):
        for decorator in function.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = script.called(call) if call is not None else script.name(decorator)
            if name == "functools.partial" and call is not None and call.args:
                name = script.name(call.args[0])
            if name in COMPILERS:
                decorators.add(decorator)
                options = _options(call) if call is not None else {}
                yield Compiled(script, decorator, function, options, decorates=True)
    for call in script.calls:
        if call in decorators:
            continue
        if script.called(call) in COMPILERS:
            outer = script.parent(call)
            target = call.args[0] if call.args else _options(call).get("model")
            if target is None and isinstance(outer, ast.Call) and outer.func is call and outer.args:
                target = outer.args[0]  # torch.compile(mode=...)(model)
            if target is not None:
                yield Compiled(script, call, target, _options(call))
        elif _compiles_in_place(script, call) and isinstance(call.func, ast.Attribute):
            yield Compiled(script, call, call.func.value, _options(call), in_place=True)


def _options(call: ast.Call) -> dict[str, ast.expr]:
    return {word.arg: word.value for word in call.keywords if word.arg}


def _compiles_in_place(script: Script, call: ast.Call) -> bool:
    """`module.compile(mode=...)`; not Keras's, which takes an optimizer or a loss."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "compile":
        return False
    if not script.uses("torch") or script.uses("keras") or script.uses("tensorflow"):
        return False
    given = {word.arg for word in call.keywords}
    if call.args or not given <= {"mode", "backend", "fullgraph", "dynamic", "options", "disable"}:
        return False
    return not script.called(call) and is_a(script, call.func.value, Sort.MODEL)


def _roots(compiled: Compiled) -> list[Defined]:
    script, target = compiled.script, compiled.target
    if isinstance(target, ast.FunctionDef | ast.AsyncFunctionDef):
        return [Defined(script, target)]
    if isinstance(target, ast.ClassDef):
        return _forward(Defined(script, target))
    defined = script.definition(target)
    if defined is not None and defined.function is not None:
        return [defined]
    if isinstance(target, ast.Attribute):  # torch.compile(model.forward)
        owner = class_of(script, target.value)
        method = owner.script.method(owner, target.attr) if owner is not None else None
        if method is not None:
            return [method]
    owner = defined if defined is not None else class_of(script, target)
    return _forward(owner) if owner is not None else []


def _forward(owner: Defined) -> list[Defined]:
    method = owner.script.method(owner, "forward")
    return [method] if method is not None else []


def _reached(roots: list[Defined]) -> Iterator[Defined]:
    """The functions that a compiled one runs, and the forwards of the modules it is made of."""
    seen: set[ast.AST] = set()
    pending = list(roots)
    while pending:
        defined = pending.pop()
        if defined.node in seen or _is_outside(defined):
            continue
        seen.add(defined.node)
        yield defined
        for node in ast.walk(defined.node):
            if isinstance(node, ast.Call):
                pending += [
                    called
                    for called in called_functions(defined.script, node)
                    if called.function is not None
                ]
        owner = defined.script.class_around(defined.node)
        if owner is not None and defined.node.name == "forward":
            pending += _parts(Defined(defined.script, owner))


def _parts(owner: Defined) -> Iterator[Defined]:
    """The forwards of modules that a module makes in its `__init__`."""
    made = owner.script.method(owner, "__init__")
    if made is None:
        return
    for node in ast.walk(made.node):
        if isinstance(node, ast.Call):
            part = made.script.definition(node.func)
            if part is not None and part.class_ is not None:
                yield from _forward(part)


def _is_outside(defined: Defined) -> bool:
    return any(
        defined.script.name(each.func if isinstance(each, ast.Call) else each) in _OUTSIDE
        for each in defined.node.decorator_list
    )
