"""What the names of scripts stand for: scopes, imports, functions and classes, over files too."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from compilegate.check.reading import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = Function | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Node = TypeVar("Node", bound=ast.AST)

_DEEPEST = 12

# One name for what libraries offer under several; the longest prefix wins.
_ALIASES = {
    "tensorflow.keras": "keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "pytorch_lightning": "lightning.pytorch",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.pytorch.core.LightningModule": "lightning.pytorch.LightningModule",
    "torch.nn.parallel.distributed.DistributedDataParallel": (
        "torch.nn.parallel.DistributedDataParallel"
    ),
    "torch.nn.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.amp.autocast": "torch.autocast",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch_geometric.data.DataLoader": "torch_geometric.loader.DataLoader",
    "torch._dynamo.optimize": "torch.compile",
    "torch.compiler.compile": "torch.compile",
    "torch._dynamo.disable": "torch.compiler.disable",
}


def canonical(name: str) -> str:
    """The name that rules use for what libraries offer under several."""
    end = len(name)
    while end > 0:
        head = name[:end]
        if head in _ALIASES:
            return _ALIASES[head] + name[end:]
        end = name.rfind(".", 0, end)
    return name


@dataclass(frozen=True, eq=False)
class Binding:
    """One binding of a name."""

    kind: Literal["import", "definition", "value", "change", "element", "parameter", "other"]
    """`change` is `x += value`; an `element` is one of what is looped over."""

    node: ast.AST  # the definition, the value's expression, what is looped over, or the parameter
    place: ast.AST  # the statement or comprehension that binds
    target: str = ""  # the dotted name, where it is an import
    path: tuple[int, ...] = ()  # index path into the value, where tuples are unpacked


@dataclass(eq=False)
class Scope:
    """A module, function or class, and the names bound in it."""

    node: ast.AST
    outer: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    """What the methods of a class set `self.NAME` to."""

    outer_names: set[str] = field(default_factory=set)
    """Names that `global` or `nonlocal` give to an outer scope."""

    stars: list[str] = field(default_factory=list)  # modules of which every name was imported


@dataclass(frozen=True)
class Defined:
    """A function, lambda or class of the files, and the script it stands in."""

    script: Script
    node: FunctionNode | ast.ClassDef

    @property
    def name(self) -> str:
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def full_name(self) -> str:
        """The same with its class: `Net.forward`."""
        owner = self.script.parent(self.node)
        return f"{owner.name}.{self.name}" if isinstance(owner, ast.ClassDef) else self.name

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def lineage(self) -> Iterator[tuple[Script, ast.ClassDef]]:
        """A class and its bases in the files, in the order in which attributes are looked up."""
        pending: list[Defined] = [self]
        seen: set[ast.AST] = set()
        while pending:
            each = pending.pop()
            if isinstance(each.node, ast.ClassDef) and each.node not in seen:
                seen.add(each.node)
                yield each.script, each.node
                found = (each.script.definition(_unsubscripted(x)) for x in each.node.bases)
                pending += reversed([base for base in found if base is not None])

    def method(self, name: str) -> Defined | None:
        """A method of a class, its own or of a base in the files."""
        for script, owner in self.lineage():
            for statement in owner.body:
                if isinstance(statement, FUNCTIONS) and statement.name == name:
                    return Defined(script, statement)
        return None

    def bases(self) -> frozenset[str]:
        """The canonical names of all bases of a class, those of bases in the files too."""
        found = self.lineage()
        names = {place.name(_unsubscripted(x)) for place, owner in found for x in owner.bases}
        return frozenset(names - {""})


def _unsubscripted(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


class Script:
    """One file: its tree, and what the names in it stand for."""

    def __init__(self, source: Source, project: Project) -> None:
        self.source = source
        self.project = project
        self.module = Scope(source.tree, None)
        self.scopes: dict[ast.AST, Scope] = {source.tree: self.module}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.loops: list[Loop] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: set[str] = set()
        self._things: dict[ast.expr, Thing] = {}
        pending: list[tuple[ast.AST, Scope]] = [(source.tree, self.module)]
        while pending:
            node, scope = pending.pop()
            inner = self._enter(node, scope)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                pending.append((child, inner))
        for found in (self.calls, self.loops, self.functions, self.classes):
            found.sort(key=position)

    # The tree.

    def _enter(self, node: ast.AST, scope: Scope) -> Scope:
        """Note a node and what it binds; the scope that its children stand in."""
        match node:
            case ast.Call():
                self.calls.append(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(node)
            case ast.ClassDef():
                self.classes.append(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                self.loops.append(node)
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            self._note_bindings(node, scope)
            return scope
        if not isinstance(node, ast.Lambda):
            scope.names[node.name].append(Binding("definition", node, node))
        inner = self.scopes[node] = Scope(node, scope)
        for argument in () if isinstance(node, ast.ClassDef) else parameters(node):
            inner.names[argument.arg].append(Binding("parameter", argument, node))
        return inner

    def _note_bindings(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._bind(target, Binding("value", node.value, node), scope)
            case ast.AnnAssign() | ast.NamedExpr() if node.value is not None:
                self._bind(node.target, Binding("value", node.value, node), scope)
            case ast.withitem() if node.optional_vars is not None:
                value = Binding("value", node.context_expr, node)
                self._bind(node.optional_vars, value, scope)
            case ast.AugAssign():
                self._bind(node.target, Binding("change", node.value, node), scope)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind(node.target, Binding("element", node.iter, node), scope)
            case ast.Import() | ast.ImportFrom():
                for name in node.names:
                    self._import(node, name, scope)
            case ast.Global() | ast.Nonlocal():
                scope.outer_names.update(node.names)
            case ast.ExceptHandler() if node.name:
                scope.names[node.name].append(Binding("other", node, node))

    def _import(self, node: ast.Import | ast.ImportFrom, name: ast.alias, scope: Scope) -> None:
        if isinstance(node, ast.Import):  # `import torch.nn` binds `torch`
            module, target = "", name.name if name.asname else name.name.split(".", 1)[0]
            self.imports.add(name.name)
        else:
            module = "." * node.level + (node.module or "")
            target = f"{module}{'' if module.endswith('.') else '.'}{name.name}"
            if not node.level:
                self.imports.add(target)
        if name.name == "*":
            scope.stars.append(module)
        else:
            bound = name.asname or target.rsplit(".", 1)[-1]
            scope.names[bound].append(Binding("import", node, node, target=target))

    def _bind(self, target: ast.expr, bound: Binding, scope: Scope) -> None:
        """Bind what stands on the left; parts of a written tuple to its own parts."""
        match target:
            case ast.Name():
                owner = scope.outer if target.id in scope.outer_names and scope.outer else scope
                owner.names[target.id].append(bound)
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                current: Scope | None = scope
                while current is not None and not isinstance(current.node, ast.ClassDef):
                    current = current.outer
                if current is not None:
                    current.attributes[target.attr].append(bound)
            case ast.Tuple() | ast.List():
                value = bound.node
                parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
                for index, part in enumerate(target.elts):
                    inner = Binding(bound.kind, value, bound.place, path=(*bound.path, index))
                    if bound.kind == "value" and not bound.path and index < len(parts):
                        inner = Binding("value", parts[index], bound.place)
                    self._bind(part, inner, scope)
            case ast.Starred():
                self._bind(target.value, Binding("other", bound.node, bound.place), scope)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the innermost first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def around(self, node: ast.AST, *kinds: type[Node]) -> Node | None:
        """The innermost of the nodes around a node that is of one of these kinds."""
        return next((each for each in self.ancestors(node) if isinstance(each, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node stands in, or is."""
        return node if isinstance(node, ast.stmt) else self.around(node, ast.stmt)

    def function_around(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function or lambda that a node stands in."""
        return self.around(node, *FUNCTIONS, ast.Lambda)

    @cached_property
    def calls_by_last(self) -> dict[str, list[ast.Call]]:
        """The calls by the last part of what is called, such as `step` of `optimizer.step()`."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            found[last_name(call.func)].append(call)
        return found

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls by the canonical name of what is called; those without one under ""."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            found[self.called(call)].append(call)
        return found

    @cached_property
    def options(self) -> dict[str, ast.Call]:
        """The calls of `add_argument`, by the name that the option is read by."""
        found: dict[str, ast.Call] = {}
        for call in self.calls_by_last.get("add_argument", ()):
            for each in call.args:
                name = str(each.value) if isinstance(each, ast.Constant) else ""
                found.setdefault(name.lstrip("-").replace("-", "_"), call)
        return found

    def calls_of(self, *names: str) -> list[ast.Call]:
        """The calls of functions with one of these canonical names, in the order of the file."""
        found = [call for name in names for call in self.calls_by_name.get(name, ())]
        return sorted(found, key=position)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, argument and short text of the code, in lower case."""
        found: set[str] = set()
        for node in ast.walk(self.source.tree):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    found.add(name.lower())
                case ast.keyword(arg=str(name)):
                    found |= {name.lower(), f"{name.lower()}="}
                case ast.Attribute():
                    found |= {node.attr.lower(), f".{node.attr.lower()}"}
                case ast.Constant(value=str(text)) if len(text) < 60 and len(text.split()) == 1:
                    option = self.parent(node)  # one that nobody reads gives nothing
                    if not isinstance(option, ast.Call) or last_name(option.func) != "add_argument":
                        found.update(_WORD.findall(text.lower().replace("-", "_")))
        return frozenset(found)

    def uses(self, *libraries: str) -> bool:
        """Whether the file imports one of these libraries or anything of it."""
        return any(f"{name}.".startswith(f"{each}.") for name in self.imports for each in libraries)

    # Bindings.

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost scope that a node stands in; a function's own scope for the function."""
        inner = (each for each in (node, *self.ancestors(node)) if each in self.scopes)
        return self.scopes[next(inner, self.source.tree)]

    def bindings(self, name: str, at: ast.AST) -> tuple[Scope | None, list[Binding]]:
        """The innermost scope that binds a name for a node, and its bindings there."""
        here = scope = self.scope_of(at)
        while scope is not None:
            if name in scope.names and (scope is here or not isinstance(scope.node, ast.ClassDef)):
                return scope, scope.names[name]
            scope = scope.outer
        return None, []

    def reaching(self, name: ast.Name) -> list[Binding]:
        """The bindings that a name may have where it is read: the last on each way there."""
        scope, bindings = self.bindings(name.id, name)
        if scope is not self.scope_of(name) or len(bindings) < 2:
            return bindings
        around = {name, *self.ancestors(name)}
        found: list[Binding] = []
        here = position(name)
        for bound in sorted(bindings, key=_starts, reverse=True):
            if isinstance(bound.place, ast.comprehension):
                if self.parents.get(bound.place) in around:
                    return [bound]
                continue
            outside = bound.place not in around or isinstance(bound.place, _OPENS)
            if _starts(bound) < here and outside:
                found.append(bound)
                if bound.kind != "change" and self._always_before(bound.place, around):
                    return found
        loops = {outer for outer in around if isinstance(outer, LOOPS)}
        others = (bound for bound in bindings if bound not in found)
        return [*found, *(x for x in others if loops.intersection(self.ancestors(x.place)))]

    def _always_before(self, place: ast.AST, around: set[ast.AST]) -> bool:
        """Whether a node inside of `around` is reached only over a statement before it."""
        if place in around:  # a loop, a `with` or a function that the node stands in
            return True
        inner, outer = place, self.parents.get(place)
        while isinstance(outer, ast.With | ast.AsyncWith | ast.withitem):
            inner, outer = outer, self.parents.get(outer)
        if outer is None or outer not in around:
            return False
        if isinstance(outer, ast.If | ast.For | ast.While | ast.Try):
            blocks = (outer.body, outer.orelse, getattr(outer, "finalbody", []), [inner])
            return any(each in around for each in next(x for x in blocks if inner in x))
        return True

    # What names stand for.

    def name(self, node: ast.expr) -> str:
        """The canonical dotted name of an expression, such as `torch.compile`; "" where unknown.

        A function or class of the files is `./FILE.NAME`, what is built in `builtins.NAME`.
        """
        found = self._thing(node)
        if isinstance(found, Defined):
            return f"./{found.script.source.path.name}.{found.name}"
        return f"./{found.source.path.name}" if isinstance(found, Script) else found or ""

    def called(self, call: ast.Call) -> str:
        """The canonical name of what is called."""
        return self.name(call.func)

    def definition(self, node: ast.expr) -> Defined | None:
        """The function or class of the files that an expression names."""
        found = self._thing(node)
        return found if isinstance(found, Defined) else None

    def function(self, node: ast.expr) -> Defined | None:
        """The function of the files that an expression names."""
        found = self.definition(node)
        return None if found is None or found.is_class else found

    def _thing(self, node: ast.expr) -> Thing:
        if node not in self._things:
            self._things[node] = None  # stands while it is looked for, so that a circle ends
            self._things[node] = self._find(node)
        return self._things[node]

    def _find(self, node: ast.expr) -> Thing:
        match node:
            case ast.Lambda():
                return Defined(self, node)
            case ast.Call() if node.args and self._hands_on(node):
                return self._thing(node.args[0])
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                owner = self.around(node, ast.ClassDef)
                if owner is None:
                    return None
                method = Defined(self, owner).method(name)
                values = (
                    self._aliased(each) for each in self.scopes[owner].attributes.get(name, ())
                )
                return method or next((each for each in values if isinstance(each, Defined)), None)
            case ast.Attribute():
                return self._part(self._thing(node.value), node.attr)
            case ast.Name():
                scope, bindings = self.bindings(node.id, node)
                if scope is None:
                    return self._starred(node.id)
                for each in bindings:  # others stand in for an import that fails
                    if each.kind == "import":
                        return self._imported(each.target)
                found = [self._aliased(each, node.id) for each in bindings]
                first = next((each for each in found if isinstance(each, Defined)), None)
                return first or (found[0] if all(each == found[0] for each in found) else None)
        return None

    def _aliased(self, bound: Binding, name: str = "") -> Thing:
        """The referent of a definition, or of another name for something."""
        value = bound.node
        if bound.kind == "definition" and isinstance(value, (*FUNCTIONS, ast.ClassDef)):
            return Defined(self, value)
        itself = isinstance(value, ast.Name) and value.id == name
        if bound.kind != "value" or bound.path or itself:
            return None
        handed = isinstance(value, ast.Call) and self._hands_on(value)
        alias = isinstance(value, ast.Name | ast.Attribute | ast.Lambda)
        return self._thing(value) if isinstance(value, ast.expr) and (handed or alias) else None

    def _hands_on(self, call: ast.Call) -> bool:
        """Whether the result of a call runs its first argument: `torch.compile(step)`."""
        inner = call.func.func if isinstance(call.func, ast.Call) else call.func
        return bool(call.args) and self.name(inner) in HANDS_ON

    def _part(self, whole: Thing, name: str) -> Thing:
        """A member of a module, or a method of a class."""
        if isinstance(whole, Script):
            return whole._global(name)
        if isinstance(whole, Defined):
            return whole.method(name)
        return canonical(f"{whole}.{name}") if whole else None

    def _global(self, name: str, depth: int = 0) -> Thing:
        """The referent of a name of the module for its importers."""
        for bound in self.module.names.get(name, ()):
            if bound.kind == "import":
                return self._imported(bound.target, depth + 1)
            if bound.kind == "definition":
                return self._aliased(bound)
        return self._starred(name, depth + 1) if self.module.stars else None

    def _imported(self, target: str, depth: int = 0) -> Thing:
        own = self.project.lookup(self, target) if depth < _DEEPEST else None
        if own is None:
            return canonical(target)
        found: Thing = own[0]
        for part in own[1].split(".") if own[1] else ():
            found = (
                found._global(part, depth) if isinstance(found, Script) else self._part(found, part)
            )
        return found

    def _starred(self, name: str, depth: int = 0) -> Thing:
        for module in self.module.stars if depth < _DEEPEST else ():
            own = self.project.lookup(self, module)
            found = own[0]._global(name, depth) if own is not None and not own[1] else None
            if found is not None:
                return found
        return f"builtins.{name}" if name in _BUILTINS else None


Thing = str | Defined | Script | None
"""What a name stands for: the name of a library's, a function or class, a module of the files."""

HANDS_ON = frozenset(
    {"torch.compile", "torch_xla.compile", "torch.jit.script", "functools.partial", "torch.vmap",
     "keras.function", "tensorflow.function", "compilegate.job.compile", "torch.jit.trace",
     "torch.no_grad", "torch.compiler.disable"}
)  # fmt: skip
"""Calls whose result runs the function that they are given."""

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_OPENS = (ast.For, ast.AsyncFor, ast.withitem, ast.Lambda, *FUNCTIONS)
"""What binds a name for its own body, as a loop does its variable."""
_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def parameters(function: FunctionNode) -> list[ast.arg]:
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [each for each in every if each is not None]


def position(node: ast.AST) -> tuple[int, int]:
    """(line, column) of a node."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def last_name(node: ast.AST) -> str:
    """`step` of `self.optimizer.step`, and of `step`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def owner_of(call: ast.Call) -> ast.expr | None:
    """`self.optimizer` of `self.optimizer.step()`; None of a call of a name."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def calls_in(*nodes: ast.AST) -> list[ast.Call]:
    return [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)]


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The argument of a call for a keyword."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def is_constant(node: ast.AST | None, *values: object) -> bool:
    """Whether an expression is one of these constants, as it is written."""
    return isinstance(node, ast.Constant) and any(
        node.value == each and type(node.value) is type(each) for each in values
    )


def _starts(bound: Binding) -> tuple[int, int]:
    place = bound.place
    return position(place.context_expr if isinstance(place, ast.withitem) else place)


class Project:
    """The scripts of one check, and who imports and calls whom."""

    def __init__(self, sources: tuple[Source, ...], root: Path) -> None:
        self.root = root
        self.scripts: list[Script] = []
        self._by_module: dict[str, Script] = {}
        self._found: dict[tuple[Script, str], tuple[Script, str] | None] = {}
        for source in sources:
            script = Script(source, self)
            self.scripts.append(script)
            file = source.path.absolute()
            module = file.parent if file.stem == "__init__" else file.with_suffix("")
            self._by_module[str(module)] = script

    def lookup(self, importer: Script, dotted: str) -> tuple[Script, str] | None:
        """The script of the files that a dotted import leads to, and what remains of the name."""
        key = (importer, dotted)
        if key not in self._found:
            self._found[key] = self._look_up(*key)
        return self._found[key]

    def _look_up(self, importer: Script, dotted: str) -> tuple[Script, str] | None:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.lstrip(".").split(".") if part]
        folder = importer.source.path.absolute().parent
        if level:
            places = [folder, *folder.parents][level - 1 : level]
        else:
            root = self.root.absolute()
            outer = [parent for parent in folder.parents if parent.is_relative_to(root)]
            places = [folder, *outer, root.parent, root / "src"]
        for place in places:
            for count in range(len(parts), -1 if level else 0, -1):
                script = self._by_module.get("/".join([str(place), *parts[:count]]))
                # A script that is called after the library it imports does not import itself.
                if script is not None and script is not importer:
                    return script, ".".join(parts[count:])
        return None

    @cached_property
    def callers(self) -> dict[ast.AST, list[tuple[Script, ast.Call]]]:
        """The calls of each function of the files by name; of a class, the calls that make one."""
        found: dict[ast.AST, list[tuple[Script, ast.Call]]] = defaultdict(list)
        for script, call in self.calls():
            defined = script.definition(call.func)
            if defined is not None:
                found[defined.node].append((script, call))
        return found

    def calls(self, *names: str) -> Iterator[tuple[Script, ast.Call]]:
        """The calls in all scripts; of functions and methods with these last names, if given."""
        for script in self.scripts:
            found = (
                [script.calls_by_last.get(name, ()) for name in names] if names else [script.calls]
            )
            yield from ((script, call) for calls in found for call in calls)

    @cached_property
    def methods(self) -> dict[str, list[Defined]]:
        """The methods of all classes of the files, by name."""
        found: dict[str, list[Defined]] = defaultdict(list)
        for script in self.scripts:
            for function in script.functions:
                if isinstance(script.parent(function), ast.ClassDef):
                    found[function.name].append(Defined(script, function))
        return found
