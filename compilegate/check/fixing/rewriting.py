"""Write edits into the text of a script. What no edit speaks of stays as it was, to the byte."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from compilegate.check.fixing.plans import Change, Edit, Span
from compilegate.errors import CompilegateError


def rewritten(content: bytes, edits: Sequence[Edit]) -> tuple[bytes, tuple[Edit, ...]]:
    """The new content of a file, and the edits that were made. Raises UnparsedByFixError."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(content))
    except (cst.ParserSyntaxError, RecursionError, UnicodeDecodeError) as error:
        raise UnparsedByFixError(str(error).splitlines()[0]) from error
    writer = _Writer(edits)
    module = wrapper.visit(writer)
    return module.bytes, tuple(writer.made)


class UnparsedByFixError(CompilegateError):
    """A file that Python reads and LibCST does not; it is left alone."""


class _Writer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit]) -> None:
        super().__init__()
        self._edits = {(each.span, each.change): each for each in edits}
        self._places = {span for span, _ in self._edits}
        self.made: list[Edit] = []

    def _edit(self, node: cst.CSTNode, *changes: Change) -> Edit | None:
        where = self.get_metadata(PositionProvider, node)
        if not isinstance(where, CodeRange):
            return None
        span = Span(where.start.line, where.start.column, where.end.line, where.end.column)
        if span not in self._places:
            return None
        for change in changes:
            edit = self._edits.get((span, change))
            if edit is not None:
                return edit
        return None

    # LibCST finds these methods by the names of its nodes.
    def leave_Call(  # noqa: N802
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.BaseExpression:
        edit = self._edit(
            original_node, Change.COMPILE_IN_PLACE, Change.CALL_ITSELF, Change.PLAIN_KEYS
        )
        if edit is None:
            return updated_node
        match edit.change:
            case Change.COMPILE_IN_PLACE:
                new = in_place(updated_node)
            case Change.CALL_ITSELF:
                new = itself(updated_node)
            case _:
                new = plain_keys(updated_node)
        return updated_node if new is None else self._done(edit, new)

    def leave_Assign(  # noqa: N802
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.BaseSmallStatement:
        edit = self._edit(original_node, Change.COMPILE_IN_PLACE)
        if edit is None or not isinstance(updated_node.value, cst.Call):
            return updated_node
        new = in_place(updated_node.value)
        if new is None:
            return updated_node
        self.made.append(edit)
        return cst.Expr(value=new, semicolon=updated_node.semicolon)

    def leave_Expr(  # noqa: N802
        self, original_node: cst.Expr, updated_node: cst.Expr
    ) -> cst.BaseSmallStatement:
        edit = self._edit(original_node.value, Change.ASSIGN_BACK)
        if edit is None or not isinstance(updated_node.value, cst.Call):
            return updated_node
        target = updated_node.value.args[0].value
        if not isinstance(target, cst.Name):
            return updated_node
        self.made.append(edit)
        return cst.Assign(
            targets=[cst.AssignTarget(target=target)],
            value=updated_node.value,
            semicolon=updated_node.semicolon,
        )

    def leave_Arg(  # noqa: N802
        self, original_node: cst.Arg, updated_node: cst.Arg
    ) -> cst.Arg:
        edit = self._edit(original_node.value, Change.TENSOR_RATE, Change.NAME_MODE)
        if edit is None:
            return updated_node
        if edit.change is Change.TENSOR_RATE:
            call = cst.Call(
                func=cst.Attribute(value=cst.Name(edit.text), attr=cst.Name("tensor")),
                args=[cst.Arg(value=updated_node.value)],
            )
            self.made.append(edit)
            return updated_node.with_changes(value=call)
        if not isinstance(updated_node.value, cst.SimpleString):
            return updated_node
        quote = updated_node.value.quote
        text = cst.SimpleString(f"{quote}{edit.text}{quote}")
        self.made.append(edit)
        if updated_node.keyword is not None:
            return updated_node.with_changes(value=text)
        return updated_node.with_changes(
            value=text,
            keyword=cst.Name("mode"),
            equal=cst.AssignEqual(
                whitespace_before=cst.SimpleWhitespace(""),
                whitespace_after=cst.SimpleWhitespace(""),
            ),
        )

    def _done(self, edit: Edit, new: cst.BaseExpression) -> cst.BaseExpression:
        self.made.append(edit)
        return new


def in_place(call: cst.Call) -> cst.Call | None:
    """`torch.compile(x, mode=...)` as `x.compile(mode=...)`; None where a comment would be lost."""
    if not call.args or call.args[0].keyword is not None or call.args[0].star:
        return None
    first = call.args[0]
    if _has_comment(first.comma) or _has_comment(first.whitespace_after_arg):
        return None
    target = first.value
    if not isinstance(target, cst.Name | cst.Attribute) or target.lpar:
        return None
    rest = call.args[1:]
    changed = call.with_changes(
        func=cst.Attribute(value=target, attr=cst.Name("compile")), args=rest
    )
    if not rest:
        if _has_comment(call.whitespace_before_args):
            return None
        changed = changed.with_changes(whitespace_before_args=cst.SimpleWhitespace(""))
    return changed


def itself(call: cst.Call) -> cst.Call | None:
    """`x.forward(...)` as `x(...)`."""
    if not isinstance(call.func, cst.Attribute) or call.func.lpar:
        return None
    if _has_comment(call.func.dot):
        return None
    return call.with_changes(func=call.func.value)


def plain_keys(call: cst.Call) -> cst.Call | None:
    """`x.state_dict()` as `getattr(x, "_orig_mod", x).state_dict()`."""
    if not isinstance(call.func, cst.Attribute):
        return None
    owner = call.func.value
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    inner = cst.Call(
        func=cst.Name("getattr"),
        args=[
            cst.Arg(value=owner, comma=comma),
            cst.Arg(value=cst.SimpleString('"_orig_mod"'), comma=comma),
            cst.Arg(value=owner.deep_clone()),
        ],
    )
    return call.with_changes(func=call.func.with_changes(value=inner))


def _has_comment(node: object) -> bool:
    """Whether a piece of syntax carries a comment."""
    if not isinstance(node, cst.CSTNode):
        return False
    if isinstance(node, cst.Comment):
        return True
    return any(_has_comment(child) for child in node.children)
