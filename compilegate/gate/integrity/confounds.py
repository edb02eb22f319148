"""Confounds: what differs between a candidate and the baseline besides the compiler.

A difference that the workload declares is intended: the report lists it, and the reader knows that
the verdict is about compiler and batch together. A difference that nobody declared (another library
version, other hardware, fewer cores) fails the candidate by name, since neither its quality nor its
speed can then be attributed to the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from compilegate.evidence import Evidence, Scalar
from compilegate.gate.integrity.timing import examples_of_a_step
from compilegate.gate.judgements import Confound
from compilegate.gate.reasons import Code, Reason, clipped, failure
from compilegate.gate.settings import DECLARED, ArmDeclaration
from compilegate.job.names import AUTOCAST

FOLLOWS_FROM_BATCH_SIZE = frozenset(
    {"steps", "warmup_steps", "steps_per_epoch", "data_order", "global_batch_size"}
)
"""Recipe keys that change with the examples of a step, by the batch of a process or by the number
of processes: fewer, larger steps over the same epochs."""

STEPS, EPOCHS = "steps", "epochs"
"""Recipe keys of jobs that stop early, each at a step of its own."""

FOLLOWS_FROM_SCALING = frozenset(
    {"learning_rate_rule", "learning_rate_factor", "base_learning_rate", "base_global_batch_size"}
)
"""Recipe keys of a job whose learning rate was scaled from the baseline's."""

FOLLOWS_FROM_BUCKETS = frozenset({"data_order"})
"""Recipe keys that change where one arm only takes documents of like length together. Padding to
the longest document of a step changes no order."""

FOLLOWS_FROM_INSTANCE_TYPE = frozenset(
    {"instance_type", "cpu", "cores_available", "platform", "threads"}
    | {"accelerator", "accelerators", "accelerator_memory_bytes", "accelerator_capability"}
)
"""Environment values that may change with the instance an arm declares; library versions may not:
they are the image's."""

FOLLOWS_FROM_PRECISION = frozenset({"evaluated_in"})
"""Recipe keys of a script that evaluates in the precision in which it trains."""

FOLLOWS_FROM_WORLD_SIZE = frozenset({"threads", "accelerators", "cores_available"})
"""Environment values that may change with the processes of an arm: they share the cores, and in a
local run a job sees as many cores and GPUs as it has processes."""

FOLLOWS_FROM_IMAGE = frozenset(
    {
        *("image", "python", "torch", "transformers", "numpy", "platform", "cuda", "cudnn"),
        # Another torch has other defaults: before 1.12 it multiplied in TF32.
        *("float32_matmul_gpu", "float32_convolution_gpu", "float32_matmul_cpu"),
    }
)
"""Environment values that may change with the image an arm declares."""

SCALING = "scale_learning_rate"
"""Declared, too; but what it changes is the learning rate, which is declared by itself."""

BUCKETS = "padding = buckets"
"""Declared of one arm and not of the other."""

HOST = "cpu"
"""As a job calls it that computes beside no accelerator, or past one: which is compared with
nothing else."""

INSTANCE_TYPE = "instance_type"
"""Declared, of the machine and not of the recipe."""

EPOCHS_END = 0.05
"""The share of a run's examples that may be skipped at the ends of epochs."""

EXAMPLES_SEEN = "examples_seen"
MOST_STEPS = 10**12
MOST_TOLD = 20
"""Undeclared differences that have a reason of their own."""
MOST_CONFOUNDS = 200
"""Differences that a verdict lists."""

MOST_SHOWN = 80
"""Characters of a value."""

NOT_COMPARED = frozenset({"arm", "seed", "compiler", "on_failure", AUTOCAST})
"""Recipe keys of programs that record all they were told: who the job is and what it does when it
fails, not how it trains. A compiler's options are not part of a recipe: the compiler's own record
holds it, so that an option can never be an undeclared confound. Autocast is how a precision comes
about, which is compared itself."""


def find_confounds(
    baseline: Sequence[Evidence],
    candidate: Sequence[Evidence],
    baseline_declaration: ArmDeclaration,
    candidate_declaration: ArmDeclaration,
    examples_tolerance: float = EPOCHS_END,
) -> tuple[Confound, ...]:
    """Every recipe key and environment value that differs between replicates of the same seed.

    `baseline[j]` and `candidate[j]` have the same seed.
    """
    declared = {
        key
        for key in (*DECLARED, SCALING)
        if getattr(baseline_declaration, key) != getattr(candidate_declaration, key)
    }
    if baseline_declaration.instance_type != candidate_declaration.instance_type:
        declared.add(INSTANCE_TYPE)
    if (baseline_declaration.padding == "buckets") != (candidate_declaration.padding == "buckets"):
        declared.add(BUCKETS)
    stops_differ = examples_tolerance > EPOCHS_END
    recipes = _differences([item.recipe for item in baseline], [item.recipe for item in candidate])
    found = [
        _recipe_confound(key, before, after, declared, stops_differ=stops_differ)
        for key, before, after in recipes
        if key not in NOT_COMPARED
    ]
    environments = _differences(
        [item.environment for item in baseline], [item.environment for item in candidate]
    )
    consequences = _consequences(baseline_declaration, candidate_declaration)
    found += [
        _environment_confound(key, before, after, consequences)
        for key, before, after in environments
    ]
    found += _examples_seen(
        zip(baseline, candidate, strict=True),
        (baseline_declaration, candidate_declaration),
        examples_tolerance,
    )
    return tuple(found)


def _examples_seen(
    pairs: Iterable[tuple[Evidence, Evidence]],
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    tolerance: float,
) -> Iterator[Confound]:
    """Another batch over as many epochs shows the same examples. One over as many steps does not,
    nor do micro-batches that were counted as steps: such arms did not train on the same."""
    for pair in pairs:
        before, after = (
            _whole(each.recipe.get("steps")) * examples_of_a_step(each, declared)
            for each, declared in zip(pair, declarations, strict=True)
        )
        apart = abs(after - before)
        if before and after and apart > EPOCHS_END * before:
            intended = apart <= tolerance * before
            why = "within examples_tolerance" if intended else "steps times batch, not declared"
            yield Confound(EXAMPLES_SEEN, f"{before:,}", f"{after:,}", intended=intended, why=why)
            return


def _whole(steps: Scalar) -> int:
    """Zero for anything that is not a number of steps; another check reports that."""
    return steps if isinstance(steps, int) and 0 < steps <= MOST_STEPS else 0


def listed(confounds: Sequence[Confound]) -> tuple[Confound, ...]:
    """Those that a verdict lists: all, or of very many the undeclared first."""
    if len(confounds) <= MOST_CONFOUNDS:
        return tuple(confounds)
    return tuple(sorted(confounds, key=lambda confound: confound.intended)[:MOST_CONFOUNDS])


def undeclared(confounds: Sequence[Confound]) -> tuple[Reason, ...]:
    """One failing reason for each confound that the workload does not declare; of very many, one
    for those that are not told."""
    found = [confound for confound in confounds if not confound.intended]
    reasons = [
        failure(
            _CODES.get(confound.name, Code.CONFOUND_UNDECLARED),
            f"{confound.name} differs from the baseline without being declared: "
            f"{confound.candidate} instead of {confound.baseline}.{_ADVICE.get(confound.name, '')}",
            name=confound.name,
            baseline=confound.baseline,
            candidate=confound.candidate,
        )
        for confound in found[:MOST_TOLD]
    ]
    if len(found) > MOST_TOLD:
        left = len(found) - MOST_TOLD
        told = f"{left:,} more values differ from the baseline without being declared."
        reasons.append(failure(Code.CONFOUND_MORE, told, differing=len(found)))
    return tuple(reasons)


_CODES = {EXAMPLES_SEEN: Code.CONFOUND_EXAMPLES_SEEN}
_ADVICE = {
    EXAMPLES_SEEN: " Train for as many epochs, count optimizer steps and not micro-batches, or "
    "allow for it with examples_tolerance, as where jobs stop early.",
}


def _recipe_confound(
    key: str, before: str, after: str, declared: set[str], *, stops_differ: bool
) -> Confound:
    if key in declared:
        return Confound(key, before, after, intended=True, why="declared by the workload")
    if key == STEPS or (key == EPOCHS and stops_differ):
        # By how much is judged by the examples that were seen.
        return Confound(key, before, after, intended=True, why="see examples_seen")
    for following, causes in (
        (FOLLOWS_FROM_BATCH_SIZE, ("batch_size", "world_size")),
        (FOLLOWS_FROM_SCALING, (SCALING,)),
        (FOLLOWS_FROM_BUCKETS, (BUCKETS,)),
        (FOLLOWS_FROM_PRECISION, ("precision",)),
    ):
        cause = next((each for each in causes if each in declared), None)
        if key in following and cause is not None:
            return Confound(key, before, after, intended=True, why=f"follows from {cause}")
    if key == "device" and INSTANCE_TYPE in declared and HOST not in (before, after):
        return Confound(key, before, after, intended=True, why=f"follows from {INSTANCE_TYPE}")
    return Confound(key, before, after, intended=False, why="recipe, not declared")


def _consequences(baseline: ArmDeclaration, candidate: ArmDeclaration) -> dict[str, str]:
    """By environment value that may differ, the declared key that it follows from."""
    return {
        key: declared
        for declared, following in (
            ("image", FOLLOWS_FROM_IMAGE),
            ("instance_type", FOLLOWS_FROM_INSTANCE_TYPE),
            ("world_size", FOLLOWS_FROM_WORLD_SIZE),
        )
        if getattr(baseline, declared) != getattr(candidate, declared)
        for key in following
    }


def _environment_confound(
    key: str, before: str, after: str, consequences: Mapping[str, str]
) -> Confound:
    if key in consequences:
        why = f"follows from {consequences[key]}"
        return Confound(key, before, after, intended=True, why=why)
    return Confound(key, before, after, intended=False, why="environment, not declared")


def _differences(
    before: Sequence[Mapping[str, Scalar]], after: Sequence[Mapping[str, Scalar]]
) -> Iterator[tuple[str, str, str]]:
    keys = sorted({key for values in (*before, *after) for key in values})
    for key in keys:
        pairs = [(_told(old, key), _told(new, key)) for old, new in zip(before, after, strict=True)]
        differing = [pair for pair in pairs if pair[0] != pair[1]]
        if differing:
            yield clipped(key, 60), *_shown(*differing[0])


def _told(values: Mapping[str, Scalar], key: str) -> str:
    if key not in values:
        return "not recorded"
    value = values[key]
    return "none" if value is None else str(value)


def _shown(before: str, after: str) -> tuple[str, str]:
    """Both, clipped to where they differ: the digest of an image stands at the end of its name."""
    differs_at = next(
        (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), 0
    )
    start = max(differs_at - 20, 0) if max(len(before), len(after)) > MOST_SHOWN else 0
    ellipsis = "..." if start else ""
    shown = [f"{ellipsis}{clipped(text[start:], MOST_SHOWN)}" for text in (before, after)]
    return shown[0], shown[1]
