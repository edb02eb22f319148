"""Fix in scripts what can be fixed automatically without a change of any loss, to the last bit.

Nothing is written here: the caller gets the new texts. What no fix recognises stays a finding.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.checking import Finding, check_sources, deep_trees
from compilegate.check.names import Project, Script, is_constant, owner_of
from compilegate.check.reading import LINE_END, Unread, read_paths
from compilegate.check.rules import FINDERS
from compilegate.check.rules.base import Analysis, View
from compilegate.check.rules.compiling import compiled_as
from compilegate.rules import COMPILERS


@dataclass(frozen=True)
class Edit:
    """One piece of a text and what takes its place; offsets in characters."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class FixedScript:
    """A script as it is, and as it would be."""

    path: Path
    before: bytes
    after: bytes
    rules: tuple[str, ...]

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        texts = (each.decode("utf-8", "replace") for each in (self.before, self.after))
        before, after = (each.splitlines(keepends=True) for each in texts)
        return "".join(difflib.unified_diff(before, after, str(self.path), str(self.path)))


def fix_paths(
    paths: Sequence[Path], compilers: tuple[str, ...] = COMPILERS
) -> tuple[tuple[FixedScript, ...], tuple[Unread, ...]]:
    """The scripts that can be mended, and those into which a fix could not be written.

    Notebooks and ignored findings stay.
    """
    with deep_trees():
        read = read_paths(paths)
        analysis = Analysis(Project(read.sources, read.root))
        found = check_sources(read, analysis, compilers).findings
        findings = [each for each in found if each.cell is None]
        fixed: list[FixedScript] = []
        refused: list[Unread] = []
        for script in analysis.project.scripts:
            path = script.source.path
            wanted = [each for each in findings if each.path == path and each.rule in FIXES]
            view = View(script, analysis, compilers)
            edits = [(each.rule, edit) for each in wanted for edit in _edits(view, each)]
            if not edits:
                continue
            text, encoding = script.source.text, script.source.encoding
            after = text
            for _, edit in sorted(edits, key=lambda each: each[1].start, reverse=True):
                after = after[: edit.start] + edit.text + after[edit.end :]
            try:
                ast.parse(after)
            except SyntaxError as error:
                refused.append(Unread(path, f"not fixed: {error.msg} at line {error.lineno}"))
                continue
            rules = tuple(sorted({rule for rule, _ in edits}))
            fixed.append(FixedScript(path, text.encode(encoding), after.encode(encoding), rules))
    return tuple(fixed), tuple(refused)


def _edits(view: View, finding: Finding) -> Iterator[Edit]:
    for found in FINDERS[finding.rule](view):
        at = getattr(found.node, "lineno", 0), getattr(found.node, "col_offset", -1) + 1
        if at == (finding.line, finding.column) and isinstance(found.node, ast.Call):
            yield from FIXES[finding.rule](view, found.node)
            return


def _span(script: Script, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Start and end of a node in characters; the tree counts bytes within a line."""
    begins = [0, *(each.end() for each in LINE_END.finditer(script.source.text))]

    def offset(line: int, column: int) -> int:
        text = script.source.lines[line - 1].encode()[:column]
        return begins[line - 1] + len(text.decode(errors="replace"))

    end = offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
    return offset(node.lineno, node.col_offset), end


def _keys(view: View, call: ast.Call) -> Iterator[Edit]:
    """`model.state_dict()` becomes `getattr(model, "_orig_mod", model).state_dict()`."""
    owner, own = owner_of(call), view.script.bindings("getattr", call)[1]
    if not isinstance(owner, ast.Name | ast.Attribute) or own:
        return
    if compiled_as(view, owner, wrapped=False) is not None:
        name = ast.unparse(owner)
        yield Edit(*_span(view.script, owner), f'getattr({name}, "_orig_mod", {name})')


def _order(view: View, call: ast.Call) -> Iterator[Edit]:
    """`m = torch.compile(m)` and `m = m.to(d)` in the next line change places."""
    script, second = view.script, view.script.statement(call)
    block = getattr(script.parent(second) if second is not None else None, "body", [])
    first = block[block.index(second) - 1] if second in block[1:] else None
    match first, second, owner_of(call):
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=compiles, lineno=line, end_lineno=end),
            ast.Assign(targets=[ast.Name(id=other)], value=moves, lineno=next_, end_lineno=last),
            ast.Name(id=owner),
        ) if name == other == owner and line == end and line + 1 == next_ == last and moves is call:
            uses = [each for each in view.compiled if each.node is compiles and each.sort == "call"]
            if any(isinstance(x.target, ast.Name) and x.target.id == name for x in uses):
                one, two = _span(script, first), _span(script, second)
                text = script.source.text
                yield Edit(*one, text[slice(*two)])
                yield Edit(*two, text[slice(*one)])


def _anomaly(view: View, call: ast.Call) -> Iterator[Edit]:
    """`torch.autograd.set_detect_anomaly(True)` becomes `...(False)`: it only looks."""
    name = view.script.called(call)
    on = bool(call.args) and is_constant(call.args[0], True)
    if name == "torch.autograd.set_detect_anomaly" and on:
        yield Edit(*_span(view.script, call.args[0]), "False")


def _xla_save(view: View, call: ast.Call) -> Iterator[Edit]:
    """`torch.save(...)` becomes `xm.save(...)` where `xm` is imported."""
    bound = view.script.module.names.get("xm", ())
    if any(each.target == "torch_xla.core.xla_model" for each in bound) and len(call.args) == 2:
        yield Edit(*_span(view.script, call.func), "xm.save")


FIXES: dict[str, Callable[[View, ast.Call], Iterator[Edit]]] = {
    "orig-mod-keys": _keys,
    "compile-order": _order,
    "debugging-on": _anomaly,
    "torch-save-with-xla": _xla_save,
}
"""The rules that have a fix, though not for each place."""
