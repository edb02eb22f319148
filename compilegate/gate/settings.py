"""Settings of the gate: the `[gate]` table of a workload, and the experiment to judge.

These types are read twice: as the `[gate]` table of `workloads/NAME.toml`, and as `gate.json`
inside the gate job. They are the only place where a limit of the gate has a default.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from compilegate.declaration_errors import matching, sentences
from compilegate.errors import CompilegateError
from compilegate.job.contract import (
    DEFAULT_PARITY_STEPS,
    MOST_PARITY_STEPS,
    MOST_SPEED_PROBE_SECONDS,
    NO_ARM,
    NOTHING_NEW,
)
from compilegate.job.evidence.parity import DEFAULT_PARITY_LIMITS

BuiltinMetric = Literal[
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "micro_f1",
    "auroc",
    "log_loss",
    "loss",
    "perplexity",
    "calibration_error",
    "mse",
    "mae",
]
HIGHER_IS_BETTER = frozenset({"accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc"})
"""Built-in metrics; of all others of them less is better."""
FRACTIONS = HIGHER_IS_BETTER | {"calibration_error"}
"""Built-in metrics between 0 and 1."""
MOST_OF_A_FRACTION = 0.5
"""A margin for a metric between 0 and 1 that is this large lets a model pass that is of no use."""
MOST_RELATIVE = 1.0
LEAST_CONFIDENCE = 0.8
"""Lowest confidence that may be declared."""
BUILTIN_METRICS: tuple[BuiltinMetric, ...] = get_args(BuiltinMetric)
MetricName = Annotated[
    str, matching(r"^[a-z][a-z0-9_]*$", "a name in lowercase, such as log_loss", max_length=60)
]
DottedName = Annotated[
    str,
    matching(
        r"^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$",
        "a function with its module, such as metrics.recall",
        max_length=200,
    ),
]
Direction = Literal["higher", "lower"]
Padding = Literal["max", "buckets", "longest"]
"""How the built-in program pads documents: `compilegate.job.contract.PADDINGS`."""
SliceColumn = Annotated[str, matching(r"^[^\x00-\x1f]+$", "a column's name", max_length=60)]
"""The name of a categorical column of the validation data."""
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
ArmName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9](?:[-_.]?[A-Za-z0-9])*$",
        "letters and digits with a single - _ or . between them, such as larger-batch",
        max_length=63,
    ),
]
"""Part of a folder's name, `ARM--SEED`: so no path separators and no double dash."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MetricGuard(_Strict):
    """One metric: guarded (the candidate may be worse by `margin` at most) or only watched."""

    direction: Direction
    """Which way is better."""
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How much worse a candidate may be: in the metric's own units (fractions, nats), or as a
    fraction of the baseline's value when `relative`. May be left out beside `floor` or `drop`."""
    relative: bool = False
    """Whether the margin is a fraction of the baseline's value."""
    watched: bool = False
    """Measured and shown, but decides nothing; then there is no margin."""
    floor: float | None = Field(default=None, allow_inf_nan=False)
    """The least acceptable value, in the metric's own units (for errors: the largest). An arm whose
    models do not reach it on average is not valid, the baseline included."""
    drop: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The most that a new model may lie below the registered one (for errors: above), in the
    metric's own units. None: it may lie anywhere above its floor."""
    expected_seed_sd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Standard deviation of the metric over the seeds of one arm, where it is known (the noise
    floor of an earlier verdict). Decides nothing: the forecast before training uses it."""
    function: DottedName | None = None
    """A function of a user's own, `package.module.function`:
    compilegate.job.Examples in, one number out, or one per example whose mean is the
    metric."""
    reported: bool = False
    """Read from what the jobs reported, with no examples behind it: judged over seeds only."""

    @model_validator(mode="after")
    def _has_one_source_and_a_margin_or_none(self) -> Self:
        if self.function is not None and self.reported:
            raise ValueError("set `function` or `reported`, not both")
        registers = self.floor is not None or self.drop is not None
        if self.margin is not None or self.relative or not registers:
            _check_margin(self.margin, relative=self.relative, watched=self.watched)
        for name, value in (("floor", self.floor), ("drop", self.drop)):
            if self.watched and value is not None:
                raise ValueError(
                    f"watched is true but a {name} is given, allowed: one of them, since a watched "
                    "metric decides nothing"
                )
        return self

    @property
    def sign(self) -> float:
        """1 where higher is better, else -1."""
        return 1.0 if self.direction == "higher" else -1.0

    def margin_at(self, baseline: float) -> float | None:
        """The margin in the metric's own units, for this value of the baseline."""
        if self.margin is None or not self.relative:
            return self.margin
        return self.margin * abs(baseline)

    def measure(self, name: str) -> str:
        """What computes the metric from examples: a built-in's name, or a dotted name."""
        return self.function or name


def _check_margin(margin: float | None, *, relative: bool, watched: bool) -> None:
    if margin is None and not watched:
        raise ValueError(
            "margin is missing, and must be given, or a floor or drop; without one a metric can be "
            "watched = true only"
        )
    if watched and (margin is not None or relative):
        raise ValueError(
            "watched is true but a margin is given, allowed: one of them, since a watched metric "
            "decides nothing"
        )


def _check_size(where: str, name: str, margin: float | None, *, relative: bool) -> None:
    """Refuse what is a slip: a margin that is all of the metric."""
    if margin is not None and relative and margin >= MOST_RELATIVE:
        raise ValueError(
            f"{where}.margin is {margin:g} of the baseline's value, allowed: less than "
            f"{MOST_RELATIVE:g} with relative = true, such as 0.02 for two per cent"
        )
    if margin is not None and not relative and name in FRACTIONS and margin >= MOST_OF_A_FRACTION:
        raise ValueError(
            f"{where}.margin is {margin:g}, allowed: less than {MOST_OF_A_FRACTION:g}, since the "
            "metric lies between 0 and 1; one point is 0.01"
        )


class SliceGuard(_Strict):
    """One metric on a part of the validation data: those examples whose `column` is `value`."""

    column: SliceColumn
    """A categorical column of the examples, `slice:COLUMN` in examples.npz."""
    value: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """The category; every category when omitted."""
    metric: MetricName
    """One of the gate's metrics that are computed from examples."""
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """As in `[gate.metrics.NAME]`, for this part of the data."""
    relative: bool = False
    """Whether the margin is a fraction of the baseline's value."""
    watched: bool = False
    """Measured and shown, but decides nothing; then there is no margin."""
    min_examples: int = Field(default=30, ge=2)
    """A slice with fewer is not judged; the verdict calls it too small."""

    @model_validator(mode="after")
    def _has_a_margin_or_is_watched(self) -> Self:
        _check_margin(self.margin, relative=self.relative, watched=self.watched)
        return self


class ParitySettings(_Strict):
    """The `[gate.parity]` table: is the compiled graph the same arithmetic as eager?"""

    steps: int = Field(default=DEFAULT_PARITY_STEPS, ge=0, le=MOST_PARITY_STEPS)
    """Training steps that the built-in training program compares in each compiled job; zero leaves
    the comparison out. Not the gate's to judge: a run may have fewer steps."""
    enabled: bool = True
    """False: what the jobs recorded is not looked at."""
    required: bool = False
    """True: a candidate with a compiler, of which parity cannot tell, fails."""
    fp32_limit: float = Field(default=DEFAULT_PARITY_LIMITS["fp32"], gt=1.0, allow_inf_nan=False)
    """How many times what eager's rounding explains a compiled tensor may err."""
    bf16_limit: float = Field(default=DEFAULT_PARITY_LIMITS["bf16"], gt=1.0, allow_inf_nan=False)
    """The same for bf16."""
    fp16_limit: float = Field(default=DEFAULT_PARITY_LIMITS["fp16"], gt=1.0, allow_inf_nan=False)
    """The same for fp16."""
    on_wrong: Literal["stop", "go-on"] = "stop"
    """What a candidate's job does whose compiled arithmetic is wrong: end after the probe, with
    that as its evidence, or train to its end. With limits other than the defaults it trains to its
    end, since the gate judges by them."""

    @property
    def job_goes_on(self) -> bool:
        """Whether a candidate's job trains to its end, whatever its probe finds."""
        usual = all(
            self.limit(precision) == limit for precision, limit in DEFAULT_PARITY_LIMITS.items()
        )
        return self.on_wrong == "go-on" or not self.enabled or not usual

    @model_validator(mode="after")
    def _what_is_required_is_measured(self) -> Self:
        if self.required and not (self.steps and self.enabled):
            found = "steps is 0" if self.enabled else "enabled is false"
            raise ValueError(f"{found} but required is true, allowed: one of them")
        return self

    def limit(self, precision: str) -> float:
        """The limit of a precision: fp32, bf16 or fp16."""
        limits = {"fp32": self.fp32_limit, "bf16": self.bf16_limit, "fp16": self.fp16_limit}
        return limits[precision]


class GateSettings(_Strict):
    """The `[gate]` table."""

    metrics: dict[MetricName, MetricGuard] = Field(min_length=1)
    """Guarded and watched metrics by name: built-in ones, or any name with `function` or
    `reported`."""
    slices: list[SliceGuard] = Field(default=[], max_length=200)
    """Parts of the validation data on which a metric is guarded or watched as well."""
    groups: SliceColumn | None = None
    """The categorical column of the examples whose values are the units of the validation data:
    patients, documents, customers. Rows of one count as one. A workload names it in `[data]`."""
    max_failure_rate: float | None = Field(default=None, gt=0, lt=1)
    """The share of seeds that may diverge, or lose more than the margin and chance explain: a
    candidate passes only where its seeds show a lower one. None: rare failures decide nothing."""
    confidence: float = Field(default=0.95, ge=LEAST_CONFIDENCE, le=0.9999)
    """Each bound's confidence; non-inferiority is judged by the one-sided bound at this level."""
    min_speedup: float = Field(default=1.20, ge=1.0, allow_inf_nan=False)
    """Steady-state samples per second, candidate over baseline, that a candidate must reach."""
    repaid_within_runs: float = Field(default=1.0, gt=0, le=1e6, allow_inf_nan=False)
    """Compilation must be repaid within so many times the length of the runs that are judged: more
    than one where the real training is that much longer than these."""
    max_recompilations: int | None = Field(default=None, ge=0)
    """More compilations than this after the first ones fail the candidate. None: they are noted and
    decide nothing, since what they cost is in the times."""
    speed_probe_seconds: float | None = Field(
        default=None, ge=0, le=MOST_SPEED_PROBE_SECONDS, allow_inf_nan=False
    )
    """How long each candidate's job may take turns between the baseline's step and its own, after
    training; zero leaves that out. None: a twentieth of the training's time, a minute at most. Not
    the gate's to judge: what the jobs measured counts, however long they took."""
    max_memory_increase: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    """How much more memory a candidate may take than the baseline, as a fraction of the baseline's:
    0.2 allows a fifth more. None: memory is shown and decides nothing."""
    examples_tolerance: float = Field(default=0.05, ge=0.05, le=1e6, allow_inf_nan=False)
    """Fraction of the baseline's training examples by which a candidate's may differ, over all
    steps of all seeds. 0.05 is what batches leave out at the ends of epochs. More declares that
    arms are to differ, as where jobs stop early: then a factor of 1.5, or what is declared if that
    is more, is allowed."""
    max_speedup: float = Field(default=10.0, gt=1.0, allow_inf_nan=False)
    """A speed-up beyond it, at the same batch, is no compiler's: a wrong unit, or steps that were
    not waited for, until it is shown otherwise and this is raised."""
    loss_must_fall: bool = True
    """Whether a training loss that is exactly the same in all steps fails its job. One that does
    not fall is noted."""
    parity: ParitySettings = ParitySettings()

    @property
    def guarded(self) -> tuple[str, ...]:
        """The metrics that decide."""
        return tuple(name for name, guard in self.metrics.items() if not guard.watched)

    @property
    def from_examples(self) -> dict[str, MetricGuard]:
        """The metrics that the gate computes from the examples itself."""
        return {name: guard for name, guard in self.metrics.items() if not guard.reported}

    @model_validator(mode="after")
    def _metrics_can_be_computed_and_decide(self) -> Self:
        for name, guard in self.metrics.items():
            if guard.function is not None:
                continue
            if name not in BUILTIN_METRICS and not guard.reported:
                raise ValueError(
                    f"metrics.{name} is not a metric of the gate, allowed: "
                    f"{', '.join(BUILTIN_METRICS)}, or a name with `function` or `reported = true`"
                )
            right = "higher" if name in HIGHER_IS_BETTER else "lower"
            if name in BUILTIN_METRICS and guard.direction != right:
                raise ValueError(
                    f"metrics.{name}.direction is {guard.direction!r}, allowed: {right!r}, which "
                    "is better"
                )
            _check_size(f"metrics.{name}", name, guard.margin, relative=guard.relative)
        if not self.guarded:
            raise ValueError("metrics are all watched, allowed: one or more with a margin")
        for index, part in enumerate(self.slices):
            _check_size(f"slices[{index}]", part.metric, part.margin, relative=part.relative)
            if part.metric not in self.from_examples:
                raise ValueError(
                    f"slices[{index}].metric is {part.metric!r}, allowed: a metric that the gate "
                    f"computes from examples: {', '.join(self.from_examples) or 'there is none'}"
                )
        return self

    def guard_of(self, part: SliceGuard) -> MetricGuard:
        """The slice's margin for the metric that it is about."""
        changed = {"margin": part.margin, "relative": part.relative, "watched": part.watched}
        return self.metrics[part.metric].model_copy(update=changed)


DECLARED = ("batch_size", "learning_rate", "precision", "world_size", "padding")
"""What a workload declares of an arm's recipe: keys of ArmDeclaration and of evidence."""


class ArmDeclaration(_Strict):
    """What the workload declares about an arm; its evidence must agree."""

    compiler: str
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, allow_inf_nan=False)
    precision: Literal["fp32", "bf16", "fp16"]
    world_size: int = Field(default=1, ge=1)
    """Processes that train together, each with a batch of `batch_size`."""
    padding: Padding | None = None
    """How documents are padded, where arms do it in another way than to one length; None where all
    do, and where only the program knows."""
    scale_learning_rate: Literal["none", "linear", "square-root"] = "none"
    """The rule by which the learning rate follows from the baseline's."""
    instance_type: Annotated[str, StringConstraints(min_length=1, max_length=60)] | None = None
    """Where its jobs run. Costs are reported only where the evidence names the same instance."""
    usd_per_hour: float | None = Field(default=None, ge=1e-4, le=1e5)
    """Price of that instance; None when it is not known."""
    image: Annotated[str, StringConstraints(min_length=1, max_length=250)] | None = None
    """The image its jobs are to run in, where arms have different ones; then other versions of what
    an image holds are intended too."""
    price_note: Annotated[str, StringConstraints(max_length=200)] | None = None
    """When and where that was the price, or why there is none."""

    @property
    def global_batch_size(self) -> int:
        """Examples of one step."""
        return self.batch_size * self.world_size

    @model_validator(mode="after")
    def _a_price_is_that_of_an_instance(self) -> Self:
        if self.usd_per_hour is not None and self.instance_type is None:
            raise ValueError(
                f"usd_per_hour is {self.usd_per_hour:g} without instance_type, "
                "allowed: both, since it is that instance's price"
            )
        return self

    @property
    def compiled(self) -> bool:
        """Whether the arm has a compiler."""
        return self.compiler != "eager"


class Experiment(_Strict):
    """`gate.json`: everything the gate needs beside the evidence itself."""

    schema_version: Literal[1] = 1
    workload: str
    baseline: ArmName
    """Name of the baseline arm, a key of `arms`."""
    arms: dict[ArmName, ArmDeclaration]
    """The baseline, and the candidates beside it, if any."""
    seeds: list[Seed] = Field(min_length=1)
    """The replicates of every arm; the first is the one whose model is released."""
    settings: GateSettings
    left_out: list[ArmName] = []
    """Arms that the workload declares and this execution goes without: they are not judged."""
    evidence: Literal["written", "printed"] = "written"
    """`printed`: the jobs left nothing but metrics that they printed. Then nothing but these can be
    judged, over seeds, and nothing proves that a compiler ran."""

    @property
    def candidates(self) -> tuple[str, ...]:
        """The arms that are compared with the baseline, in the order they were declared."""
        return tuple(name for name in self.arms if name != self.baseline)

    @property
    def replicates(self) -> tuple[tuple[str, int], ...]:
        """Every (arm, seed) that there must be evidence of."""
        return tuple((arm, seed) for arm in self.arms for seed in self.seeds)

    @model_validator(mode="after")
    def _arms_and_seeds_are_distinct(self) -> Self:
        if self.baseline not in self.arms:
            raise ValueError(
                f"baseline is {self.baseline!r}, allowed: one of the arms {', '.join(self.arms)}"
            )
        margins = [guard.margin for guard in self.settings.metrics.values()]
        if self.candidates and margins == [None] * len(margins):
            raise ValueError(
                "settings.metrics have no margin, allowed: one or more with a margin, by which "
                "candidates are compared"
            )
        for name in (NO_ARM, NOTHING_NEW):
            if name in self.arms:
                raise ValueError(f"arms holds {name!r}, which is how a decision names no arm")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}, allowed: distinct seeds")
        if self.evidence == "printed" and len(self.seeds) < 2:
            raise ValueError(
                f"seeds is {self.seeds} and evidence is 'printed', allowed: two seeds or more"
            )
        return self


class ExperimentError(CompilegateError):
    """The experiment cannot be used. A sentence for each problem names the file and the key."""


def read_experiment(path: Path) -> Experiment:
    """Read the experiment from a file that ends in .toml, or else holds JSON.

    The metric functions that it names are imported, so that a missing one is refused now. Raises
    ExperimentError.
    """
    experiment = _read(path)
    _check_functions(path, experiment.settings)
    return experiment


def _read(path: Path) -> Experiment:
    try:
        text = path.read_bytes().decode("utf-8")
        raw = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        # Through JSON, so that both forms are checked alike: numbers as JSON has them.
        return Experiment.model_validate_json(json.dumps(raw, default=str))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ExperimentError(*sentences(path, error, Experiment)) from error
    except (ValueError, RecursionError) as error:  # of UTF-8, TOML or JSON
        form = "TOML" if path.suffix == ".toml" else "JSON"
        raise ExperimentError(f"{path} is not readable {form}: {error}") from error


def _check_functions(path: Path, settings: GateSettings) -> None:
    # Only here, where the gate runs: workloads are read without numpy and scipy.
    from compilegate.gate.metrics import MetricFunctionError, load_function  # noqa: PLC0415

    for name, guard in settings.metrics.items():
        if guard.function is None:
            continue
        try:
            load_function(guard.function)
        except MetricFunctionError as error:
            raise ExperimentError(f"{path}: settings.metrics.{name}.function: {error}") from error
