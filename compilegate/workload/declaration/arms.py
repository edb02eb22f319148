"""`[arms.NAME]`: the compiler, its stack, and how a job trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    create_model,
    model_validator,
)

from compilegate.catalog.compilers import Stack as KnownStack
from compilegate.catalog.compilers import compilers
from compilegate.gate.settings import Padding
from compilegate.job.compilers import (
    Option,
    Setting,
    StackTable,
    compiler_options,
    declarations,
    table_text,
)
from compilegate.job.contract import MOST_PROCESSES
from compilegate.workload.declaration.values import (
    ImageFolder,
    Positive,
    Table,
    Version,
)
from compilegate.workload.parameters import (
    LONGEST_JOB_SECONDS,
    InstanceType,
)


class Stack(Table):
    """What every such table has. Its compiler's has defaults for all of it."""

    framework: str
    version: Version
    transformers: Version | None = None

    def value(self, option: Option) -> Setting | None:
        """The value of an option; None where the table's compiler does not have it."""
        value: Setting | None = getattr(self, option.key, None)
        return value


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
    def key(kind: Any, default: Any, description: str) -> tuple[Any, Any]:
        return kind, Field(default=default, description=description)

    frameworks: Any = Literal[declared.frameworks]  # pyrefly: ignore[invalid-literal]
    fields: dict[str, Any] = {
        "framework": key(frameworks, declared.frameworks[0], "What the script is written in."),
        "version": key(Version, declared.version, "The framework's version in the image."),
        "transformers": key(
            Version | None if declared.transformers else None,
            None,
            "For an image of Hugging Face's; left out for one of the framework alone.",
        ),
        **{
            each.key: key(type_of(each), each.default, f"{each.description}.")
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


Distribution = Literal["none", "torchrun", "pytorchxla", "sm_dist"]


if TYPE_CHECKING:
    CompilerName = str

    class CompilerKeys(Table):
        """A key for each option of each compiler, and for each table of a stack; None leaves the
        compiler's default."""
else:
    CompilerName = Literal[tuple(declarations())]
    CompilerKeys = create_model(
        "CompilerKeys",
        __base__=Table,
        **{each.key: (type_of(each) | None, None) for each in compiler_options().values()},
        **{stack_key(name): (table | None, None) for name, table in STACKS.items()},
    )

Precision = Literal["fp32", "bf16", "fp16"]

AWS_IMAGE = "aws"
"""Value of an arm's image: AWS's own image of the compiler's stack, with nothing added."""


class ArmTable(CompilerKeys):
    """`[arms.NAME]`."""

    compiler: CompilerName
    """What turns the training graph into kernels; the baseline has none, `eager`."""
    batch_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Examples that each process takes in a step. Left out, it is what AWS fitted into memory for
    the same model, instance, precision and sequence length."""
    learning_rate: Positive | None = None
    """The peak, which the warm-up leads to. Left out where `scale_learning_rate` gives it."""
    scale_learning_rate: Literal["none", "linear", "square-root"] = "none"
    """Instead of a learning rate: how it follows from the baseline's, by the examples of a step."""
    precision: Precision = "fp32"
    """What the arithmetic is done in; weights are kept in fp32."""
    padding: Padding | None = None
    """Overrides `[data] padding` for this arm."""
    image: ImageFolder | None = None
    """Folder in `containers/` whose image the jobs run in, by default that of the compiler; or
    `aws`."""
    instance_type: InstanceType | None = None
    """Overrides `[compute] instance_type`, and then the execution's parameter, for this arm."""
    distribution: Distribution = "none"
    """What starts the processes. `torchrun` is torch's own launcher, with NCCL on GPUs and gloo on
    CPUs. The others are Training Compiler's and start one process for each accelerator."""
    instance_count: int = Field(default=1, ge=1, le=100)
    """Machines that a job trains on; more than one need a distribution."""
    processes: int | None = Field(default=None, ge=1, le=MOST_PROCESSES)
    """Processes on each instance; by default one, and with Training Compiler's one for each
    accelerator."""
    profiler: bool = False
    """SageMaker's profiler. It slows the very steps that are timed."""
    debugger: bool = False
    """SageMaker Debugger's hook, of images that have it. It slows the steps as well."""
    spot: bool = False
    """Train on managed spot capacity, which AWS may take back; the job then continues later."""
    max_wait_seconds: int | None = Field(default=None, ge=60, le=LONGEST_JOB_SECONDS)
    """Longest time of a job with spot instances, waiting included."""

    @property
    def image_folder(self) -> str:
        """The folder in `containers/` whose image the jobs run in; or AWS_IMAGE."""
        return self.image or declarations()[self.compiler].image

    @property
    def options_given(self) -> dict[Option, Setting]:
        """Values of the compiler's options; an option left out has its default."""
        given = {each: getattr(self, each.key) for each in compiler_options().values()}
        return {
            option: table_text(value) if option.table else value
            for option, value in given.items()
            if value is not None
        }

    @property
    def stack(self) -> Stack | None:
        """The versions that the compiler's image holds; None where the image alone decides."""
        table = STACKS.get(self.compiler)
        if table is None:
            return None
        given: Stack | None = getattr(self, stack_key(self.compiler))
        return given or table.model_validate({})

    @property
    def known_stack(self) -> KnownStack | None:
        """What the catalog knows of the stack; None where there is none, or none such."""
        stack = self.stack
        if stack is None:
            return None
        return compilers()[self.compiler].stack(stack.framework, stack.version, stack.transformers)

    @property
    def in_script(self) -> bool:
        """Whether one process divides its steps among the accelerators, as TensorFlow's strategies
        do."""
        known = self.known_stack
        within = known is not None and known.distribution == "in the script"
        return within and self.distribution == "none"

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        for problem in (*self._of_processes(), *self._of_tables(), *self._of_rates()):
            raise ValueError(problem)
        return self

    def _of_processes(self) -> Iterator[str]:
        known = compilers()[self.compiler].distributions
        if self.distribution not in ("none", *known):
            yield (
                f"distribution is {self.distribution!r} with compiler {self.compiler!r}, expected "
                f"{' or '.join(map(repr, known or ('none',)))}"
            )
        if self.distribution == "none" and self.instance_count > 1:
            yield (
                f"instance_count is {self.instance_count} and distribution is 'none', expected a "
                "distribution: without one each instance trains alone"
            )
        if self.distribution != "torchrun" and (self.processes or 1) > 1:
            yield (
                f"processes is {self.processes} with distribution {self.distribution!r}, expected "
                "'torchrun', or processes left out"
            )

    def _of_tables(self) -> Iterator[str]:
        for name in STACKS:
            if getattr(self, stack_key(name)) is not None and self.compiler != name:
                yield (
                    f"a table {stack_key(name)} is given and compiler is {self.compiler!r}, "
                    f"expected compiler = {name!r}"
                )
        if self.image == AWS_IMAGE and self.stack is None:
            yield (
                f"image is {AWS_IMAGE!r} and compiler is {self.compiler!r}, expected a compiler "
                f"for which AWS has images ({', '.join(map(repr, STACKS))}), or a folder of "
                "containers/"
            )
        for option, value in self.options_given.items():
            having = [name for name, each in declarations().items() if option in each.options]
            if self.compiler not in having:
                yield (
                    f"{option.key} is {value!r} with compiler {self.compiler!r}, expected "
                    f"compiler {' or '.join(map(repr, having))}"
                )
        declaration = declarations()[self.compiler]
        given = {option.name: value for option, value in self.options_given.items()}
        problem = declaration.problem(
            {each.name: each.default for each in declaration.options} | given
        )
        if problem is not None:
            yield problem

    def _of_rates(self) -> Iterator[str]:
        if (self.learning_rate is None) == (self.scale_learning_rate == "none"):
            yield (
                "learning_rate and scale_learning_rate are both given or both missing, expected a "
                "number, or scale_learning_rate = 'linear' or 'square-root'"
            )
