"""Scopes, and what each name in them is bound to. Nothing here looks beyond one file."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.Module | FunctionNode | ast.ClassDef
Loop = ast.For | ast.AsyncFor | ast.While
Branch = ast.If | ast.While | ast.IfExp | ast.Assert

Kind = Literal["import", "definition", "value", "element", "parameter", "other"]


@dataclass(frozen=True)
class Binding:
    """One way in which a name gets what it stands for."""

    kind: Kind
    node: ast.AST
    """The definition, the value's expression, what is looped over, or the parameter."""

    target: str = ""
    """The dotted name, where it is an import."""

    index: int | None = None
    """Where a tuple is unpacked: which part of the value this is."""

    line: int = 0


@dataclass(eq=False)
class Scope:
    """A module, function or class, and the names bound in it."""

    node: ScopeNode
    outer: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    """What the methods of a class set `self.NAME` to."""

    elsewhere: set[str] = field(default_factory=set)
    """Names that `global` or `nonlocal` give to an outer scope."""

    stars: list[str] = field(default_factory=list)
    """Modules of which every name was imported."""


@dataclass(eq=False)
class Tree:
    """An indexed tree: parents, scopes, and the nodes that rules ask for."""

    module: Scope
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    imported: set[str] = field(default_factory=set)
    """The dotted names of other packages that are imported anywhere."""

    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost scope that a node stands in; a function's own scope for the function."""
        current: ast.AST | None = node
        while current is not None:
            if current in self.scopes:
                return self.scopes[current]
            current = self.parents.get(current)
        return self.module


# The most frequent kinds of node.
_BIND_NOTHING = frozenset(
    {ast.Name, ast.Attribute, ast.Constant, ast.Expr, ast.keyword, ast.arg, ast.Subscript,
     ast.BinOp, ast.Compare, ast.Tuple, ast.List, ast.Return, ast.Dict, ast.JoinedStr,
     ast.FormattedValue}
)  # fmt: skip


def indexed(module: ast.Module) -> Tree:
    """Index a script in one pass."""
    top = Scope(module, None)
    tree = Tree(top)
    tree.scopes[module] = top
    pending: list[tuple[ast.AST, Scope]] = [(module, top)]
    while pending:
        node, scope = pending.pop()
        inner = scope if type(node) in _BIND_NOTHING else _entered(node, scope, tree)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for child in value:
                    if isinstance(child, ast.AST):
                        tree.parents[child] = node
                        pending.append((child, inner))
            elif isinstance(value, ast.AST) and value._fields:  # operators and contexts have none
                tree.parents[value] = node
                pending.append((value, inner))
    tree.calls.sort(key=_position)
    tree.loops.sort(key=_position)
    tree.branches.sort(key=_position)
    tree.functions.sort(key=_position)
    tree.classes.sort(key=_position)
    return tree


def _position(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _entered(node: ast.AST, scope: Scope, tree: Tree) -> Scope:
    """Note what a node binds; the scope that its children stand in."""
    match node:
        case ast.Call():
            tree.calls.append(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            tree.functions.append(node)
            scope.names[node.name].append(Binding("definition", node, line=node.lineno))
            return _function(node, scope, tree)
        case ast.Lambda():
            return _function(node, scope, tree)
        case ast.ClassDef():
            tree.classes.append(node)
            scope.names[node.name].append(Binding("definition", node, line=node.lineno))
            inner = Scope(node, scope)
            tree.scopes[node] = inner
            return inner
        case ast.Assign():
            for target in node.targets:
                _bind(target, "value", node.value, scope, tree)
        case ast.AnnAssign() if node.value is not None:
            _bind(node.target, "value", node.value, scope, tree)
        case ast.AugAssign():
            _bind(node.target, "value", node.value, scope, tree)
        case ast.NamedExpr():
            _bind(node.target, "value", node.value, scope, tree)
        case ast.For() | ast.AsyncFor():
            tree.loops.append(node)
            _bind(node.target, "element", node.iter, scope, tree)
        case ast.While():
            tree.loops.append(node)
            tree.branches.append(node)
        case ast.If() | ast.IfExp() | ast.Assert():
            tree.branches.append(node)
        case ast.comprehension():
            _bind(node.target, "element", node.iter, scope, tree)
        case ast.withitem() if node.optional_vars is not None:
            _bind(node.optional_vars, "value", node.context_expr, scope, tree)
        case ast.Import() | ast.ImportFrom():
            _import(node, scope)
            tree.imported.update(_imported(node))
        case ast.Global() | ast.Nonlocal():
            scope.elsewhere.update(node.names)
        case ast.ExceptHandler() if node.name:
            scope.names[node.name].append(Binding("other", node, line=node.lineno))
    return scope


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if node.module and not node.level:
        return [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return []


def _function(node: FunctionNode, scope: Scope, tree: Tree) -> Scope:
    inner = Scope(node, scope)
    tree.scopes[node] = inner
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*every, arguments.vararg, arguments.kwarg):
        if argument is not None:
            bound = Binding("parameter", argument, line=argument.lineno)
            inner.names[argument.arg].append(bound)
    return inner


def _bind(target: ast.expr, kind: Kind, value: ast.expr, scope: Scope, tree: Tree) -> None:
    """Bind what stands on the left; parts of a written tuple to its own parts."""
    line = target.lineno
    match target:
        case ast.Name():
            owner = scope.outer if target.id in scope.elsewhere and scope.outer else scope
            owner.names[target.id].append(Binding(kind, value, line=line))
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            owner = _class_around(scope)
            if owner is not None:
                owner.attributes[target.attr].append(Binding(kind, value, line=line))
        case ast.Tuple() | ast.List():
            for index, part in enumerate(target.elts):
                if kind == "value" and isinstance(value, ast.Tuple | ast.List):
                    if index < len(value.elts):
                        _bind(part, kind, value.elts[index], scope, tree)
                elif isinstance(part, ast.Name):
                    bound = Binding(kind, value, index=index, line=line)
                    scope.names[part.id].append(bound)
                elif isinstance(part, ast.Attribute):
                    owner = _class_around(scope)
                    if isinstance(part.value, ast.Name) and part.value.id == "self" and owner:
                        bound = Binding(kind, value, index=index, line=line)
                        owner.attributes[part.attr].append(bound)
                else:
                    _bind(part, "element", value, scope, tree)
        case ast.Starred():
            _bind(target.value, "other", value, scope, tree)


def _class_around(scope: Scope) -> Scope | None:
    current: Scope | None = scope
    while current is not None and not isinstance(current.node, ast.ClassDef):
        current = current.outer
    return current


def _import(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    if isinstance(node, ast.Import):
        for name in node.names:
            if name.asname:
                bound = Binding("import", node, name.name, line=node.lineno)
                scope.names[name.asname].append(bound)
            else:
                first = name.name.split(".", 1)[0]
                scope.names[first].append(Binding("import", node, first, line=node.lineno))
        return
    module = "." * node.level + (node.module or "")
    for name in node.names:
        if name.name == "*":
            scope.stars.append(module)
            continue
        dotted = f"{module}{'' if module.endswith('.') else '.'}{name.name}"
        scope.names[name.asname or name.name].append(
            Binding("import", node, dotted, line=node.lineno)
        )
