"""Whether arms trained in the precision that the workload declares for them.

A script decides that by itself, and a declaration is easily forgotten: what is not declared is
fp32. Where both arms declare the same and trained the same, they are compared fairly whatever the
workload says: that is noted, with the line to change. Otherwise the candidate fails, since the
verdict would be about another comparison than the declared one. The baseline stays sound: what its
jobs did is known, and no candidate's evidence decides about it. Only an arm whose jobs differ among
themselves is none that can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compilegate.evidence import EvidenceRecord, Replicate
from compilegate.gate.reasons import Code, Note, Reason, Subject, failure
from compilegate.gate.settings import Experiment
from compilegate.job.evidence.precision import otherwise_declared
from compilegate.job.evidence.ratios import EPSILON
from compilegate.job.names import AUTOCAST


def check_one_precision(
    experiment: Experiment, records: Mapping[Replicate, EvidenceRecord]
) -> Iterator[tuple[Replicate, Reason]]:
    """A reason for each job that did not train as declared, in an arm whose jobs differ."""
    for arm, declared in experiment.arms.items():
        trained = _trained(experiment, records, arm)
        for seed, precision in trained.items():
            if len({*trained.values()}) > 1 and precision != declared.precision:
                told = _told(experiment, records, arm, [arm])
                yield (arm, seed), Subject(seed).fails(Code.RECIPE_PRECISION, f"{told}.")


def about_precision(
    experiment: Experiment, records: Mapping[Replicate, EvidenceRecord], arm: str
) -> Reason | Note | None:
    """What a candidate's verdict says where it or the baseline was not trained as declared."""
    if arm not in experiment.arms:
        return None
    both = (experiment.baseline, arm)
    declared = [experiment.arms[name].precision for name in both]
    trained = [{*_trained(experiment, records, name).values()} for name in both]
    otherwise = [
        name
        for name, wanted, found in zip(both, declared, trained, strict=True)
        if len(found) == 1 and found != {wanted}
    ]
    if not otherwise:
        return None
    if len(otherwise) == 2 and declared[0] == declared[1] and trained[0] == trained[1]:
        told = _told(experiment, records, arm, both)
        sentence = f"In both arms {told}. Trained alike, they are compared all the same."
        return Note(Code.RECIPE_PRECISION, sentence)
    told = "; in arm ".join(
        f"{name} {_told(experiment, records, name, [name])}" for name in otherwise
    )
    return failure(Code.RECIPE_PRECISION, f"In arm {told}.")


def _trained(
    experiment: Experiment, records: Mapping[Replicate, EvidenceRecord], arm: str
) -> dict[int, str]:
    """By seed, what a job trained in: what its recipe or its parity says, and if one of them is
    not what is declared, that one."""
    declared = experiment.arms[arm].precision
    found: dict[int, str] = {}
    for seed in experiment.seeds:
        record = records.get((arm, seed))
        if record is None or record.evidence.failure is not None:
            continue
        parity = record.evidence.parity
        said = [
            record.evidence.recipe.get("precision"),
            None if parity is None or record.parity is None else parity.precision,
        ]
        known = [each for each in said if isinstance(each, str) and each in EPSILON]
        if known:
            found[seed] = next((each for each in known if each != declared), declared)
    return found


def _told(
    experiment: Experiment,
    records: Mapping[Replicate, EvidenceRecord],
    arm: str,
    arms: Sequence[str],
) -> str:
    """The first job of the arm that trained otherwise, in a sentence; to be changed in `arms`."""
    declared = experiment.arms[arm].precision
    trained = _trained(experiment, records, arm)
    seed = next(seed for seed, precision in trained.items() if precision != declared)
    recipe = records[arm, seed].evidence.recipe
    autocast = recipe.get(AUTOCAST) == trained[seed]
    return otherwise_declared(trained[seed], declared, arms, autocast=autocast)
