"""`[arms.NAME.COMPILER]`: which of AWS's images an arm of such a compiler takes.

Each table is made of what its compiler declares of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, create_model

from compilegate.job.compilers import Option, Setting, StackTable, declarations
from compilegate.workload.declared.table import Table

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(?:\.\d+)*$", max_length=20)]


class Stack(Table):
    """What every such table has. Its compiler's has defaults for all of it."""

    framework: str
    version: Version
    transformers: Version | None = None

    def told(self, option: Option) -> Setting | None:
        """What the table says of an option; None where its compiler has none such."""
        told: Setting | None = getattr(self, option.key, None)
        return told


def type_of(option: Option) -> Any:
    """The type of an option's value in a file."""
    if option.table:
        return dict[str, Any]  # `table_text` says what may be in it
    if option.truth:
        return bool
    if isinstance(option.default, int):
        return Annotated[int, Field(ge=option.at_least, le=option.at_most)]
    if option.pattern:
        return Annotated[str, AfterValidator(option.parsed)]
    return Literal[option.choices]  # pyrefly: ignore[invalid-literal]


def stack_key(compiler: str) -> str:
    """The key of the compiler's table."""
    return compiler.replace("-", "_")


def _table_of(compiler: str, declared: StackTable) -> type[Stack]:
    frameworks: Any = Literal[declared.frameworks]  # pyrefly: ignore[invalid-literal]
    transformers: Any = Version | None if declared.transformers else None
    fields: dict[str, Any] = {
        "framework": (
            frameworks,
            Field(default=declared.frameworks[0], description="What the script is written in."),
        ),
        "version": (
            Version,
            Field(default=declared.version, description="The framework's version in the image."),
        ),
        "transformers": (
            transformers,
            Field(
                default=None,
                description="For an image of Hugging Face's; left out for one of the framework "
                "alone.",
            ),
        ),
        **{
            each.key: (
                type_of(each),
                Field(default=each.default, description=f"{each.description}."),
            )
            for each in declared.options
        },
    }
    return create_model(
        "".join(part.capitalize() for part in compiler.split("-")),
        __base__=Stack,
        __module__=__name__,
        __doc__=f"`[arms.NAME.{stack_key(compiler)}]`: {declared.description}",
        **fields,
    )


STACKS: Mapping[str, type[Stack]] = {
    name: _table_of(name, each.stack)
    for name, each in declarations().items()
    if each.stack is not None
}
"""The tables of the compilers that come in images of AWS's, by the compiler's name."""
