"""Confounds: what differs between a candidate and the baseline besides the compiler.

A declared difference is intended: the report lists it. One that nobody declared (another library
version, another kind of machine, fewer cores) fails the candidate by name, since neither its
quality nor its speed can then be attributed to the compiler. Another processor or kernel of one
instance type is what the cloud gives, and a note. What a script records under a name of its own is
no part of the recipe where it differs between the seeds of one arm, or is a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compilegate.gate.findings import Code, Note, Reason, clipped, failure
from compilegate.gate.record import examples_of_a_step
from compilegate.gate.settings import DECLARED, ArmDeclaration
from compilegate.gate.verdict import Confound
from compilegate.job.contract import AUTOCAST
from compilegate.job.evidence import Evidence, Scalar

BUCKETS = "padding = buckets"
"""Declared of one arm and not of the other."""
STEPS, EPOCHS = "steps", "epochs"
"""Recipe keys that are compared by the examples that were seen."""
FOLLOWS = {
    "batch_size": ("steps", "warmup_steps", "steps_per_epoch", "data_order", "global_batch_size"),
    "world_size": (
        *("steps", "warmup_steps", "steps_per_epoch", "data_order", "global_batch_size"),
        *("threads", "accelerators", "cores_available"),
    ),
    "scale_learning_rate": (
        *("learning_rate_rule", "learning_rate_factor"),
        *("base_learning_rate", "base_global_batch_size"),
    ),
    BUCKETS: ("data_order",),
    "precision": ("evaluated_in",),
    "image": (
        *("image", "python", "torch", "transformers", "numpy", "platform", "cuda", "cudnn"),
        # Another torch has other defaults: before 1.12 it multiplied in TF32.
        *("float32_matmul_gpu", "float32_convolution_gpu", "float32_matmul_cpu"),
    ),
    "instance_type": (
        *("instance_type", "cpu", "cores_available", "platform", "threads", "accelerator"),
        *("accelerators", "accelerator_memory_bytes", "accelerator_capability"),
    ),
}
"""Recipe keys and environment values that follow from a declared key of an arm."""
HOST = "cpu"
"""The recipe's `device` of a job that computes beside no accelerator."""
MACHINE = frozenset({"cpu", "platform"})
"""Environment values that may differ between machines of one instance type."""
NOT_COMPARED = frozenset({"arm", "seed", "compiler", "on_failure", AUTOCAST})
"""Recipe keys of programs that record all their arguments: who the job is and what it does when it
fails, not how it trains. Autocast is how a precision comes about, which is compared itself."""
HARDWARE = ("accelerator", "cpu", "device", "gpu", "hardware", "instance", "processor", "tpu")
"""Parts of the names under which jobs record what they ran on."""
PATHS = ("/", "./", "../", "~", "s3://", "file://")
COUNTS = ("cores", "count", "accelerators", "threads", "memory")
"""Parts of names of such keys that say how many, and not of what."""
EPOCHS_END = 0.05
"""The share of a run's examples that may be skipped at the ends of epochs."""
STOPPED_EARLY = 0.5
"""The same where the workload declares that jobs stop early: a factor of 1.5."""
EXAMPLES_SEEN = "examples_seen"
MOST_STEPS = 10**12
MOST_LISTED, MOST_SHOWN = 20, 80


def find_confounds(
    baseline: Sequence[Evidence],
    candidate: Sequence[Evidence],
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    examples_tolerance: float,
) -> list[Confound]:
    """Every recipe key and environment value that differs between replicates of the same seed.

    `baseline[j]` and `candidate[j]` have the same seed; `declarations` are those of the two arms.
    """
    before, after = declarations
    declared = {
        key
        for key in (*DECLARED, "scale_learning_rate", "instance_type", "image")
        if getattr(before, key) != getattr(after, key)
    }
    if (before.padding == "buckets") != (after.padding == "buckets"):
        declared.add(BUCKETS)
    stops, found = examples_tolerance > EPOCHS_END, []
    recipes = [[it.recipe for it in jobs] for jobs in (baseline, candidate)]
    for key, *values in _differences(*recipes, fixed=False):
        if key not in NOT_COMPARED:
            why = _declared(key, values, declared, stops=stops) or _follows(key, declared)
            found.append(_confound(key, values, why, "recipe, not declared"))
    environments = [[it.environment for it in jobs] for jobs in (baseline, candidate)]
    for key, *values in _differences(*environments, fixed=True):
        found.append(_confound(key, values, _follows(key, declared), "environment, not declared"))
    return [*found, *_examples_seen(baseline, candidate, declarations, examples_tolerance)]


def about_confounds(confounds: Sequence[Confound]) -> list[Reason | Note]:
    """Statements on the differences that the workload does not declare."""
    statements: list[Reason | Note] = []
    for each in [it for it in confounds if not it.intended][:MOST_LISTED]:
        numbers = {"name": each.name, "baseline": each.baseline, "candidate": each.candidate}
        text = f"{each.name} differs: {each.candidate} instead of {each.baseline}."
        if each.name in MACHINE:
            statements.append(Note(Code.CONFOUND_HARDWARE, text, {"name": each.name}))
        elif each.name == EXAMPLES_SEEN:
            text = (
                f"{text} Train for as many epochs and count optimizer steps; where jobs stop "
                "early, declare examples_tolerance in [gate]."
            )
            statements.append(failure(Code.CONFOUND_EXAMPLES_SEEN, text, **numbers))
        else:
            statements.append(failure(Code.CONFOUND_UNDECLARED, text, **numbers))
    return statements


def about_hardware(jobs: Sequence[Evidence]) -> list[Note]:
    """A note where no job recorded what it ran on."""
    for key, value in (item for each in jobs for item in each.environment.items()):
        named = any(part in key.lower() for part in HARDWARE)
        counts = any(part in key.lower() for part in COUNTS)
        if named and not counts and value not in (None, 0, False, ""):
            return []
    sentence = (
        "No job recorded its hardware, so the speed-up may be the machine's: record `cpu`, "
        "`accelerator` or `instance_type` in the environment."
    )
    return [Note(Code.CONFOUND_HARDWARE_UNKNOWN, sentence)]


def _examples_seen(
    baseline: Sequence[Evidence],
    candidate: Sequence[Evidence],
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    tolerance: float,
) -> Iterator[Confound]:
    """Another batch over as many epochs shows the same examples, within what the ends of epochs
    leave out. One over as many steps does not, nor do micro-batches that were counted as steps.
    Where jobs stop early, each at its own step, those of all seeds are compared."""
    seen = [
        [_steps(it) * examples_of_a_step(it, declared) for it in jobs]
        for jobs, declared in zip((baseline, candidate), declarations, strict=True)
    ]
    pairs = [(one, other) for one, other in zip(*seen, strict=True) if one and other]
    stops = tolerance > EPOCHS_END
    if stops and pairs:
        pairs = [(sum(one for one, _ in pairs), sum(other for _, other in pairs))]
    apart, *values = max(((max(it) / min(it) - 1.0, *it) for it in pairs), default=(0.0, 0, 0))
    if apart > EPOCHS_END:
        allowed = apart <= (max(tolerance, STOPPED_EARLY) if stops else EPOCHS_END)
        shown, why = [f"{it:,}" for it in values], "within examples_tolerance" if allowed else None
        yield _confound(EXAMPLES_SEEN, shown, why, "steps times batch, not declared")


def _steps(evidence: Evidence) -> int:
    """Zero for anything that is not a number of steps; another check reports that."""
    steps = evidence.recipe.get(STEPS)
    return steps if isinstance(steps, int) and 0 < steps <= MOST_STEPS else 0


def _confound(key: str, values: Sequence[str], why: str | None, otherwise: str) -> Confound:
    """The difference, which is intended where there is a reason why."""
    before, after = values
    return Confound(key, before, after, intended=why is not None, why=why or otherwise)


def _declared(key: str, values: Sequence[str], declared: set[str], *, stops: bool) -> str | None:
    """Why a key of the recipe may differ; `stops` says whether jobs may stop early."""
    if key in declared:
        return "declared by the workload"
    if key == STEPS or (key == EPOCHS and stops):
        return f"see {EXAMPLES_SEEN}"
    on_accelerators = key == "device" and HOST not in values
    return "follows from instance_type" if on_accelerators and "instance_type" in declared else None


def _follows(key: str, declared: set[str]) -> str | None:
    causes = (cause for cause, keys in FOLLOWS.items() if cause in declared and key in keys)
    return next((f"follows from {cause}" for cause in causes), None)


def _differences(
    before: Sequence[Mapping[str, Scalar]], after: Sequence[Mapping[str, Scalar]], *, fixed: bool
) -> Iterator[tuple[str, str, str]]:
    """(key, baseline, candidate) of each value that differs.

    What differs between the seeds of an arm is ignored; where values are `fixed`, as versions of
    libraries are, only what differs between the baseline's own seeds.
    """
    for key in sorted({key for values in (*before, *after) for key in values}):
        usual, own = ([_text(it, key) for it in arm] for arm in (before, after))
        if len({*usual}) > 1 or (len({*own}) > 1 and not fixed):
            continue
        one, other = next(((a, b) for a, b in zip(usual, own, strict=True) if a != b), ("", ""))
        if one != other and not (one.startswith(PATHS) and other.startswith(PATHS)):
            yield clipped(key, 60), *_shown(one, other)


def _text(values: Mapping[str, Scalar], key: str) -> str:
    found = values.get(key, "not recorded")
    return "none" if found is None else str(found)


def _shown(before: str, after: str) -> tuple[str, str]:
    """Both texts, clipped to where they differ (an image's digest ends its name)."""
    start = 0
    if max(len(before), len(after)) > MOST_SHOWN:
        pairs = enumerate(zip(before, after, strict=False))
        start = max(next((at for at, (one, other) in pairs if one != other), 0) - 20, 0)
    ellipsis = "..." if start else ""
    one, other = (f"{ellipsis}{clipped(text[start:], MOST_SHOWN)}" for text in (before, after))
    return one, other
