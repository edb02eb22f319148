"""`[arms.NAME]`: one way to train the workload, and what it may tell its compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    Field,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
)

from compilegate.catalog.compilers import compilers
from compilegate.gate.settings import Padding
from compilegate.job.compilers import (
    Option,
    Setting,
    compiler_options,
    declarations,
    table_text,
)
from compilegate.job.names import MOST_PROCESSES
from compilegate.workload.declared.stacks import STACKS, Stack, stack_key, type_of
from compilegate.workload.declared.table import Positive, Table
from compilegate.workload.parameters import LONGEST_JOB_SECONDS, InstanceType

Distribution = Literal["none", "torchrun", "pytorchxla", "sm_dist"]


class DistributionKeys(Table):
    """In how many processes a job trains: one on one instance, unless a distribution is named."""

    distribution: Distribution = "none"
    """What starts the processes. `torchrun` is torch's own launcher, with NCCL on GPUs and gloo on
    CPUs. The others are Training Compiler's and start one process for each accelerator."""
    instance_count: int = Field(default=1, ge=1, le=100)
    """Machines that a job trains on; more than one need a distribution."""
    processes: int | None = Field(default=None, ge=1, le=MOST_PROCESSES)
    """On each instance; by default one, and with Training Compiler's one for each accelerator."""

    def check_processes(self) -> None:
        """Raises ValueError where the processes have no launcher, or the launcher no processes."""
        if self.instance_count > 1 and self.distribution == "none":
            raise ValueError(
                f"instance_count is {self.instance_count} and distribution is 'none', allowed: "
                "a distribution, or one instance; without one each instance would train alone"
            )
        processes = self.processes or 1
        if processes > 1 and self.distribution == "none":
            raise ValueError(
                f"processes is {processes} and distribution is 'none', allowed: 1, or "
                "distribution = 'torchrun'"
            )
        if self.distribution == "torchrun" and self.instance_count * processes == 1:
            raise ValueError(
                "distribution is 'torchrun' for one process, allowed: processes or instance_count "
                "above 1, or no distribution"
            )


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
ImageFolder = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$")]

AWS_IMAGE = "aws"
"""As an arm's image: AWS's own image of the compiler's stack, with nothing added."""


class ArmTable(CompilerKeys, DistributionKeys):
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
    profiler: bool = False
    """SageMaker's profiler. It slows the very steps that are timed."""
    debugger: bool = False
    """SageMaker Debugger's hook, of images that have it. It slows the steps as well."""
    spot: bool = False
    """Train on managed spot capacity, which AWS may take back; the job then continues later."""
    max_wait_seconds: int | None = Field(default=None, ge=60, le=LONGEST_JOB_SECONDS)
    """With spot: how long a job may take in all, waiting for machines included."""

    @property
    def image_folder(self) -> str:
        """The folder in `containers/` whose image the jobs run in; or AWS_IMAGE."""
        return self.image or declarations()[self.compiler].image

    @property
    def options_given(self) -> dict[Option, Setting]:
        """What the compiler is told; what is left out has its default."""
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

    @field_validator("distribution", mode="before")
    @classmethod
    def _no_distributed_library(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("smdistributed"):
            raise ValueError(
                f"found {value!r}, allowed: 'none', 'torchrun', 'pytorchxla' or 'sm_dist'; "
                "SageMaker's distributed libraries and Training Compiler exclude each other"
            )
        return value

    @model_validator(mode="after")
    def _something_starts_the_processes(self) -> Self:
        known = compilers()[self.compiler].distributions
        if self.distribution not in ("none", *known):
            raise ValueError(
                f"distribution is {self.distribution!r} with compiler {self.compiler!r}, allowed: "
                f"{' or '.join(map(repr, known or ('none',)))}"
            )
        self.check_processes()
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_type_of_instance(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "instance_groups" in raw:
            raise ValueError(
                "instance_groups is given, allowed: instance_type and instance_count, since "
                "step times of different types of instances cannot be compared, and Training "
                "Compiler does not support them"
            )
        return raw

    @model_validator(mode="after")
    def _tables_are_those_of_the_compiler(self) -> Self:
        for name in STACKS:
            if getattr(self, stack_key(name)) is not None and self.compiler != name:
                raise ValueError(
                    f"a table {stack_key(name)} is given and compiler is {self.compiler!r}, "
                    f"allowed: only with compiler = {name!r}"
                )
        if self.image == AWS_IMAGE and self.stack is None:
            raise ValueError(
                f"image is {AWS_IMAGE!r} and compiler is {self.compiler!r}, allowed: only with a "
                f"compiler for which AWS has images ({', '.join(map(repr, STACKS))}); others name "
                "a folder of containers/"
            )
        return self

    @model_validator(mode="after")
    def _one_thing_decides_the_learning_rate(self) -> Self:
        given = self.learning_rate is not None
        ruled = self.scale_learning_rate != "none"
        if given and ruled:
            raise ValueError(
                f"learning_rate is {self.learning_rate:g} and scale_learning_rate is "
                f"{self.scale_learning_rate!r}, allowed: one of them"
            )
        if not given and not ruled:
            raise ValueError(
                "learning_rate is missing, allowed: a number, or scale_learning_rate = 'linear' or "
                "'square-root'"
            )
        return self

    @model_validator(mode="after")
    def _keys_belong_to_the_compiler(self) -> Self:
        for option, value in self.options_given.items():
            having = [name for name, each in declarations().items() if option in each.options]
            if self.compiler not in having:
                raise ValueError(
                    f"{option.key} is {value!r} with compiler {self.compiler!r}, allowed: only "
                    f"with {' or '.join(map(repr, having))}"
                )
        declaration = declarations()[self.compiler]
        given = {option.name: value for option, value in self.options_given.items()}
        defaults = {option.name: option.default for option in declaration.options}
        problem = declaration.problem({**defaults, **given})
        if problem is not None:
            raise ValueError(problem)
        return self
