"""Proposed arms, as TOML that may stand in the workload's file. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.advice.judging import Advice, OptionAdvice, Verdict
from compilegate.advice.known.facts import Facts
from compilegate.advice.rules import Option, rules
from compilegate.catalog.instances import accelerator_of
from compilegate.workload import Arm, Workload

LARGER = 1.5
"""How much larger a larger batch is: the article's 32 to 48."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One arm that the workload could have."""

    name: str
    because: str
    """A comment above it."""
    table: str
    """Its TOML."""

    @property
    def text(self) -> str:
        """The arm with its comment."""
        return f"# {self.because}\n{self.table}"


def proposals(advice: Advice, workload: Workload) -> tuple[Proposal, ...]:
    """An arm for each compiler that is to be enabled or benchmarked and that the file lacks: at the
    baseline's batch first, and at a larger one for what frees memory."""
    baseline = workload.arms.get("baseline")
    if baseline is None:
        return ()
    taken = set(workload.arms)
    found: list[Proposal] = []
    for option in advice.options:
        if option.verdict is Verdict.OFF or option.in_use:
            continue
        for proposal in _arms_of(option, advice.facts, workload, baseline):
            if proposal.name not in taken:
                taken.add(proposal.name)
                found.append(proposal)
    return tuple(found)


def _arms_of(
    option: OptionAdvice, facts: Facts, workload: Workload, baseline: Arm
) -> Iterator[Proposal]:
    rule = rules().option(option.name)
    because = f"{option.title}: {option.verdict}. {option.reason[:1].upper()}{option.reason[1:]}."
    if rule.kind == "precision":
        yield _precision_arm(option, workload, baseline, because)
        return
    if rule.kind == "money" and facts.resumes.value:
        keys = [*_keys(baseline, "eager", baseline.precision), "spot = true"]
        yield _proposal("spot", because, keys, baseline)
    if rule.compiler is not None and not _has(workload, rule, baseline):
        yield from _compiled(rule, rule.compiler, baseline, because, option.on)


def _compiled(
    rule: Option, compiler: str, baseline: Arm, because: str, on: str | None
) -> Iterator[Proposal]:
    """At the baseline's batch, and at a larger one. `on` is `2 x ml.trn1.32xlarge`, where it is
    another instance."""
    precision = baseline.precision
    if rule.needs_half and precision == "bf16":
        precision = "fp16"
    if rule.name == "neuron" and precision == "fp16":
        precision = "bf16"
    keys = _keys(baseline, compiler, precision)
    if rule.backend is not None:
        keys.append(f'backend = "{rule.backend}"')
    if on is not None:
        keys.append(f'instance_type = "{on.rpartition(" ")[2]}"')
    yield _proposal(rule.name, because, keys, baseline)
    if compiler in ("training-compiler", "inductor") and baseline.scaled_rate is None:
        larger = max(baseline.batch_size + 1, round(baseline.batch_size * LARGER))
        grown = [
            f"batch_size = {larger}" if key.startswith("batch_size") else key
            for key in keys
            if not key.startswith("learning_rate")
        ]
        yield _proposal(
            f"{rule.name}-larger-batch",
            "The same at a larger batch, with its rate scaled: its quality counts, too.",
            [*grown, 'scale_learning_rate = "linear"'],
            baseline,
        )


def _precision_arm(
    option: OptionAdvice, workload: Workload, baseline: Arm, because: str
) -> Proposal:
    accelerator = accelerator_of(baseline.instance_type or workload.compute.instance_type)
    precision = "bf16" if accelerator is None or accelerator.bf16 else "fp16"
    return _proposal(precision, because, _keys(baseline, "eager", precision), baseline)


def _has(workload: Workload, rule: Option, baseline: Arm) -> bool:
    """Whether a candidate differs from the baseline by this compiler alone."""
    compiler, backend = rule.compiler, rule.backend
    same = ("inductor", "torch-compile") if compiler == "inductor" else (compiler,)
    return any(
        arm.compiler in same
        and arm.batch_size == baseline.batch_size
        and arm.compiler_options.get("backend", "inductor") == (backend or "inductor")
        for arm in workload.candidates.values()
    )


def _keys(baseline: Arm, compiler: str, precision: str) -> list[str]:
    keys = [
        f'compiler = "{compiler}"',
        f"batch_size = {baseline.batch_size}",
        f"learning_rate = {baseline.learning_rate!r}",
    ]
    if precision != "fp32":
        keys.append(f'precision = "{precision}"')
    return keys


def _proposal(name: str, because: str, keys: list[str], baseline: Arm) -> Proposal:
    """With what the baseline says of its machines; Training Compiler has a launcher of its own."""
    of_compiler = any('"training-compiler"' in key for key in keys)
    machines = []
    if baseline.instance_type is not None and not any("instance_type" in key for key in keys):
        machines.append(f'instance_type = "{baseline.instance_type}"')
    if baseline.distribution != "none" and not any('"neuron"' in key for key in keys):
        machines.append(
            f'distribution = "{"pytorchxla" if of_compiler else baseline.distribution}"'
        )
        if baseline.instance_count > 1:
            machines.append(f"instance_count = {baseline.instance_count}")
        if not of_compiler and baseline.processes > 1:
            machines.append(f"processes = {baseline.processes}")
    own_image = baseline.image_folder not in ("training", "aws")
    if own_image and not of_compiler:
        machines.append(f'image = "{baseline.image_folder}"')
    lines = "\n".join([f"[arms.{name}]", *keys, *machines])
    return Proposal(name=name, because=" ".join(because.split()), table=f"{lines}\n")
