"""The scripts of a check, each with the names it uses, followed over imports within the folder."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from compilegate.check.reading.source import Source
from compilegate.check.script.bindings import Binding, Branch, Loop, Scope, Tree, indexed
from compilegate.check.script.canonical import canonical

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEEPEST = 12


@dataclass(frozen=True)
class Origin:
    """An expression that a value may come from; `index` is its part where a tuple is unpacked."""

    script: Script
    node: ast.expr
    index: int | None = None


@dataclass
class Known:
    """What was found out of expressions already; an empty answer stands while one is looked for.

    So each is looked for once, and a circle of assignments ends.
    """

    origins: dict[Origin, list[Origin]] = field(default_factory=dict)
    sources: dict[ast.expr, list[Origin]] = field(default_factory=dict)
    classes: dict[ast.expr, Defined | None] = field(default_factory=dict)
    tensors: dict[ast.expr, bool] = field(default_factory=dict)
    names: dict[int, bool] = field(default_factory=dict)
    sorts: dict[tuple[ast.expr, str], bool] = field(default_factory=dict)
    depth: int = 0


@dataclass(frozen=True)
class Defined:
    """A function or class, and the script it stands in."""

    script: Script
    node: Definition

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function; None for a class."""
        return None if isinstance(self.node, ast.ClassDef) else self.node

    @property
    def class_(self) -> ast.ClassDef | None:
        """The class; None for a function."""
        return self.node if isinstance(self.node, ast.ClassDef) else None


class Script:
    """One file: its tree, and what the names in it stand for."""

    def __init__(self, source: Source, project: Project) -> None:
        self.source = source
        self.project = project
        self.tree: Tree = indexed(source.tree)
        self._names: dict[ast.expr, str] = {}
        self._uses: dict[str, bool] = {}
        self._definitions: dict[ast.expr, Defined | None] = {}

    @property
    def calls(self) -> list[ast.Call]:
        """Every call, in the order of the file."""
        return self.tree.calls

    @property
    def loops(self) -> list[Loop]:
        """Every `for` and `while`, in the order of the file."""
        return self.tree.loops

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls by the canonical name of what is called; those without one under ""."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            found[self.name(call.func)].append(call)
        return found

    @cached_property
    def calls_by_last(self) -> dict[str, list[ast.Call]]:
        """The calls by the last part of what is called, such as `step` of `optimizer.step()`."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            if isinstance(call.func, ast.Attribute):
                found[call.func.attr].append(call)
            elif isinstance(call.func, ast.Name):
                found[call.func.id].append(call)
        return found

    def calls_of(self, *names: str) -> list[ast.Call]:
        """The calls of functions with one of these canonical names, in the order of the file."""
        found = [call for name in names for call in self.calls_by_name.get(name, ())]
        return sorted(found, key=_position) if len(names) > 1 else found

    @property
    def branches(self) -> list[Branch]:
        """Everything that decides by a test, in the order of the file."""
        return self.tree.branches

    @property
    def imports(self) -> set[str]:
        """The dotted names that are imported anywhere in the file."""
        return self.tree.imported

    @cached_property
    def loads(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        """The names and attributes that are read, by their last part, in the order of a walk."""
        found: dict[str, list[ast.Name | ast.Attribute]] = defaultdict(list)
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found[node.id].append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr].append(node)
        return found

    def uses(self, library: str) -> bool:
        """Whether the file imports a library or anything of it."""
        if library not in self._uses:
            self._uses[library] = any(
                name == library or name.startswith(f"{library}.") for name in self.imports
            )
        return self._uses[library]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self.tree.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the innermost first."""
        current = self.tree.parents.get(node)
        while current is not None:
            yield current
            current = self.tree.parents.get(current)

    def function_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function that a node stands in."""
        for outer in self.ancestors(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                return outer
        return None

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class that a node stands in."""
        for outer in self.ancestors(node):
            if isinstance(outer, ast.ClassDef):
                return outer
        return None

    def bindings(self, name: str, at: ast.AST) -> list[Binding]:
        """What a name may stand for at a node, by the innermost scope that binds it."""
        return self._bound(name, at)[1]

    def _bound(self, name: str, at: ast.AST) -> tuple[Scope | None, list[Binding]]:
        scope: Scope | None = self.tree.scope_of(at)
        first = True
        while scope is not None:
            if name in scope.names and (first or not isinstance(scope.node, ast.ClassDef)):
                return scope, scope.names[name]
            first = False
            scope = scope.outer
        return None, []

    # Names.

    def name(self, node: ast.expr) -> str:
        """The canonical dotted name of an expression, such as `torch.compile`; "" where unknown.

        A function or class of the folder is `./FILE.NAME`, what is built in `builtins.NAME`.
        """
        if node not in self._names:
            self._names[node] = ""  # stands while it is looked for, so that a circle ends
            self._names[node] = self._find_name(node, 0)
        return self._names[node]

    def called(self, call: ast.Call) -> str:
        """The canonical name of what is called."""
        return self.name(call.func)

    def _find_name(self, node: ast.expr, depth: int) -> str:
        if depth > _DEEPEST:
            return ""
        match node:
            case ast.Attribute():
                before = self._find_name(node.value, depth + 1)
                return canonical(f"{before}.{node.attr}") if before else ""
            case ast.Call() if self._find_name(node.func, depth + 1) == "functools.partial":
                return self._find_name(node.args[0], depth + 1) if node.args else ""
            case ast.Name():
                scope, bindings = self._bound(node.id, node)
                if scope is None:
                    return self._starred(node.id) or f"builtins.{node.id}"
                return self._name_bound(bindings, node, depth)
        return ""

    def _name_bound(self, bindings: list[Binding], node: ast.Name, depth: int) -> str:
        """What all bindings agree on; an import wins, for others stand in for it."""
        found: list[str] = []
        for binding in bindings:
            if binding.kind == "import":
                return self._imported(binding.target)
        for binding in bindings:
            if binding.kind == "definition" and isinstance(binding.node, Definition):
                found.append(f"./{self.source.path.name}.{binding.node.name}")
            elif binding.kind == "value" and binding.index is None:
                value = binding.node
                alias = isinstance(value, ast.Name | ast.Attribute) or (
                    isinstance(value, ast.Call)
                    and self._find_name(value.func, depth + 1) == "functools.partial"
                )
                same = isinstance(value, ast.Name) and value.id == node.id
                if alias and not same and isinstance(value, ast.expr):
                    found.append(self._find_name(value, depth + 1))
                else:
                    return ""
            else:
                return ""
        return found[0] if found and all(name == found[0] for name in found) else ""

    def _imported(self, target: str) -> str:
        own = self.project.lookup(self, target)
        if own is not None:
            script, rest = own
            if not rest:
                return f"./{script.source.path.name}"
            again = script.tree.module.names.get(rest.split(".", 1)[0], [])
            if again and again[0].kind == "import" and again[0].target != target:
                tail = rest.split(".", 1)[1:]
                inner = script.project.lookup(script, again[0].target)
                if inner is None:
                    return canonical(".".join([again[0].target, *tail]))
            return f"./{script.source.path.name}.{rest}"
        return canonical(target)

    def _starred(self, name: str) -> str:
        for module in self.tree.module.stars:
            own = self.project.lookup(self, module)
            if own is not None and not own[1] and name in own[0].tree.module.names:
                return f"./{own[0].source.path.name}.{name}"
            if own is None and module in _STARRED and name[0].isalpha():
                return ""
        return ""

    # Definitions within the folder.

    def definition(self, node: ast.expr) -> Defined | None:
        """The function or class of the folder that an expression stands for."""
        if node not in self._definitions:
            self._definitions[node] = None
            self._definitions[node] = self._find_definition(node, 0)
        return self._definitions[node]

    def _find_definition(self, node: ast.expr, depth: int) -> Defined | None:
        if depth > _DEEPEST:
            return None
        match node:
            case ast.Name():
                scope, bindings = self._bound(node.id, node)
                if scope is None:
                    return self._starred_definition(node.id)
                for binding in bindings:
                    found = self._bound_definition(binding, depth)
                    if found is not None:
                        return found
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                owner = self.class_around(node)
                if owner is not None:
                    return self.method(Defined(self, owner), node.attr)
            case ast.Attribute():
                name = self._module_path(node)
                return self._imported_definition(name) if name else None
            case ast.Call() if self._find_name(node.func, 0) == "functools.partial":
                return self._find_definition(node.args[0], depth + 1) if node.args else None
        return None

    def _bound_definition(self, binding: Binding, depth: int) -> Defined | None:
        if binding.kind == "definition" and isinstance(binding.node, Definition):
            return Defined(self, binding.node)
        if binding.kind == "import":
            return self._imported_definition(binding.target)
        if binding.kind == "value" and isinstance(binding.node, ast.Name | ast.Attribute):
            return self._find_definition(binding.node, depth + 1)
        return None

    def _starred_definition(self, name: str) -> Defined | None:
        for module in self.tree.module.stars:
            found = self._imported_definition(f"{module}{'' if module[-1] == '.' else '.'}{name}")
            if found is not None:
                return found
        return None

    def _module_path(self, node: ast.expr) -> str:
        """`package.module.name` as it is imported, where the first name is an import."""
        parts: list[str] = []
        current = node
        while isinstance(current, ast.Attribute):
            parts.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            return ""
        bindings = self.bindings(current.id, current)
        if not bindings or bindings[0].kind != "import":
            return ""
        return ".".join([bindings[0].target, *reversed(parts)])

    def _imported_definition(self, dotted: str, depth: int = 0) -> Defined | None:
        own = self.project.lookup(self, dotted)
        if own is None or not own[1] or depth > _DEEPEST:
            return None
        script, rest = own
        first, _, tail = rest.partition(".")
        for binding in script.tree.module.names.get(first, []):
            if binding.kind == "definition" and isinstance(binding.node, Definition):
                found = Defined(script, binding.node)
                return script.method(found, tail) if tail else found
            if binding.kind == "import":
                again = f"{binding.target}.{tail}" if tail else binding.target
                return script._imported_definition(again, depth + 1)
        for module in script.tree.module.stars:
            found_there = script._imported_definition(
                f"{module}{'' if module[-1] == '.' else '.'}{rest}", depth + 1
            )
            if found_there is not None:
                return found_there
        return None

    # Classes.

    def method(self, owner: Defined, name: str, depth: int = 0) -> Defined | None:
        """A method of a class of the folder, its own or of a base in the folder."""
        if owner.class_ is None or depth > _DEEPEST:
            return None
        for statement in owner.class_.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and (
                statement.name == name
            ):
                return Defined(owner.script, statement)
        for base in owner.class_.bases:
            found = owner.script.definition(base)
            if found is not None and found.class_ is not owner.class_:
                inherited = owner.script.method(found, name, depth + 1)
                if inherited is not None:
                    return inherited
        return None

    def bases(self, owner: ast.ClassDef, depth: int = 0) -> frozenset[str]:
        """The canonical names of all bases, those of bases in the folder too."""
        names: set[str] = set()
        if depth > _DEEPEST:
            return frozenset()
        for base in owner.bases:
            expression = base.value if isinstance(base, ast.Subscript) else base
            name = self.name(expression)
            if name:
                names.add(name)
            found = self.definition(expression)
            if found is not None and found.class_ is not None and found.class_ is not owner:
                names |= found.script.bases(found.class_, depth + 1)
        return frozenset(names)


_STARRED = frozenset({"torch", "torch.nn", "keras"})


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


class Project:
    """The scripts of one check, and who imports whom."""

    def __init__(self, sources: tuple[Source, ...], root: Path) -> None:
        self.root = root
        self.scripts: list[Script] = []
        self.known = Known()
        self._by_module: dict[str, Script] = {}
        self._names: set[str] = set()
        self._outer: dict[Path, list[Path]] = {}
        for source in sources:
            script = Script(source, self)
            self.scripts.append(script)
            file = source.path.absolute()
            module = file.parent if file.stem == "__init__" else file.with_suffix("")
            self._by_module[str(module)] = script
            self._names.update((module.name, module.parent.name))
        self._found: dict[tuple[Script, str], tuple[Script, str] | None] = {}

    def lookup(self, importer: Script, dotted: str) -> tuple[Script, str] | None:
        """The script of the folder that a dotted import leads to, and what remains of the name."""
        key = (importer, dotted)
        if key not in self._found:
            self._found[key] = self._look_up(importer, dotted)
        return self._found[key]

    def _look_up(self, importer: Script, dotted: str) -> tuple[Script, str] | None:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.lstrip(".").split(".") if part]
        folder = importer.source.path.absolute().parent
        if level:
            places = [folder, *folder.parents][level - 1 : level]
        elif parts and parts[0] in self._names:
            places = self._roots(folder)
        else:
            return None
        for place in places:
            for count in range(len(parts), -1 if level else 0, -1):
                script = self._by_module.get("/".join([str(place), *parts[:count]]))
                # A script that is called after the library it imports does not import itself.
                if script is not None and script is not importer:
                    return script, ".".join(parts[count:])
        return None

    def _roots(self, folder: Path) -> list[Path]:
        """Folders that absolute imports may start from: its own, the outer ones up to the one "
        "checked."""
        if folder not in self._outer:
            root = self.root.absolute()
            outer = [parent for parent in folder.parents if parent.is_relative_to(root)]
            self._outer[folder] = [folder, *outer, root.parent, root / "src"]
        return self._outer[folder]

    @cached_property
    def callers(self) -> dict[ast.AST, list[tuple[Script, ast.Call]]]:
        """The calls of each function of the folder; of a class, the calls that make one."""
        found: dict[ast.AST, list[tuple[Script, ast.Call]]] = defaultdict(list)
        for script in self.scripts:
            for call in script.calls:
                defined = script.definition(call.func)
                if defined is not None:
                    found[defined.node].append((script, call))
        return found
