"""Did the models learn the validation examples by heart? Pure.

Jobs may say what they trained on, as hashes of ids and inputs
(`compilegate.job.evidence.trained_on`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from compilegate.evidence import EvidenceRecord, IntArray
from compilegate.gate.reasons import Code, Note, Reason, Subject
from compilegate.job.evidence.trained_on import MOST_HASHES, hashed

MOST_INPUTS_SEEN = 0.5
"""The share of validation examples from which inputs that are in the training data, too, are the
rule: less than half of them leave a metric that speaks of new inputs for the most part. Texts and
rows of a table do repeat: 5 to 25% are usual."""
DIGEST_OF_CONTENT = re.compile(r"[0-9a-f]{16,128}(-\d+)?")
"""What `training.prepare` makes of a text and its label where the data have no ids, and others
of whole rows; equal ones are told apart by a number."""
MOST_MORE_SEEN = 0.1
"""By how much a candidate's share may exceed the baseline's: a fact of the data is one of both."""
FEW_SEEN = 0.001
"""The share of them that is not worth a word."""


def trained_on_validation(
    about: Subject, record: EvidenceRecord, baseline: EvidenceRecord | None
) -> Iterator[Reason]:
    """Validation examples that the job trained on: by their ids, or most of them by their inputs,
    or many more of them than the `baseline`'s job did."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None:
        return
    rows = len(examples.ids)
    same = _seen(hashed([each for each in examples.ids.tolist() if _is_name(each)]), seen.ids)
    if same:
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"about {same:,} of the {rows:,} validation examples are in the training data, by "
            "their ids: what the model knows by heart says nothing of how good it is.",
            examples=same,
        )
        return
    share = _inputs_seen(record)
    if share >= MOST_INPUTS_SEEN and share > _repeat_by_nature(record):
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"{share:.0%} of the validation examples are in the training data, under other ids: "
            "their inputs are the same, and inputs do not repeat that often among themselves. "
            "Take them out of the training data.",
            share=share,
        )
        return
    usual = share if baseline is None or baseline.trained_on is None else _inputs_seen(baseline)
    if share - usual > MOST_MORE_SEEN:
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"{share:.0%} of the validation examples are in the training data by their inputs, and "
            f"{usual:.0%} in the baseline: the arms did not train on the same data.",
            share=share,
            baseline_share=usual,
        )


def trained_on_other_data(
    of: Mapping[int, EvidenceRecord], baseline: Mapping[int, EvidenceRecord], tolerance: float
) -> Iterator[Reason]:
    """A candidate whose job says that it trained on other examples than the baseline's with the
    same seed, beyond what the ends of epochs or an early stop leave out."""
    most = max(MOST_MORE_SEEN, tolerance)
    for seed, record in of.items():
        before = baseline.get(seed)
        if before is None or record.trained_on is None or before.trained_on is None:
            continue
        share = _of_another(record.trained_on.ids, before.trained_on.ids)
        if share is None or share <= most:
            continue
        yield Subject(seed).fails(
            Code.DATA_OTHER_TRAINED_ON,
            f"{share:.0%} of the training examples are in one of the two arms alone, by their ids: "
            "the arms did not train on the same data.",
            share=share,
        )
        return


def _of_another(one: IntArray, other: IntArray) -> float | None:
    """The share of two sets that one alone holds, as far as the smallest hashes tell."""
    if not len(one) or not len(other):
        return None
    kept = [each for each in (one, other) if len(each) >= MOST_HASHES]
    last = min((each[-1] for each in kept), default=None)
    if last is not None:
        one, other = one[one <= last], other[other <= last]
    together = len(np.union1d(one, other))
    return 1.0 - len(np.intersect1d(one, other)) / together if together else None


def _is_name(identifier: str) -> bool:
    """Whether it names one example. Numbers name rows, and those of the two parts of the data meet
    by chance; digests name a content, which may be that of several examples."""
    return not identifier.isdecimal() and DIGEST_OF_CONTENT.fullmatch(identifier) is None


def about_inputs_seen(records: Iterable[EvidenceRecord]) -> list[Note]:
    """What is to be said where some validation inputs are in the training data too, once."""
    shares = [(_inputs_seen(each), each) for each in records]
    share, record = max(shares, key=lambda each: each[0], default=(0.0, None))
    if record is None or record.examples is None or share <= FEW_SEEN:
        return []
    rows = len(record.examples.ids)
    told = (
        f"About {100 * share:.2g}% of the validation inputs ({round(share * rows):,} of {rows:,}) "
        "are in the training data, too, under other ids. That holds for both arms alike, so they "
        "compare fairly, but new inputs may get worse answers than these metrics say."
    )
    return [Note(Code.DATA_INPUTS_TRAINED_ON, told, {"examples": round(share * rows)})]


def _inputs_seen(record: EvidenceRecord) -> float:
    """The share of validation examples whose inputs the job trained on, as far as it is known: by
    the inputs, else by ids that are digests of them."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None or not len(examples.ids):
        return 0.0
    if examples.inputs is not None:
        return _seen(examples.inputs, seen.inputs) / len(examples.ids)
    digests = [each for each in examples.ids.tolist() if DIGEST_OF_CONTENT.fullmatch(each)]
    return _seen(hashed(digests), seen.ids) / len(examples.ids)


def _repeat_by_nature(record: EvidenceRecord) -> float:
    """The largest share that would be seen were both parts drawn from the same inputs: rows of a
    small table repeat in the training data since they repeat everywhere.

    Of K equally frequent inputs, a share of 1 - exp(-n/K) repeats among n examples, which tells K;
    a training set that holds D of them has seen D/K of any others. Where some are more frequent,
    fewer than that are seen.
    """
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None or examples.inputs is None:
        return 0.0
    rows = len(examples.inputs)
    times = np.unique(examples.inputs, return_counts=True)[1]
    repeated = float(times[times > 1].sum())
    most = repeated + 2.0 * np.sqrt(repeated) + 3.0  # about 95% of Poisson counts lie below
    if most >= rows:
        return 1.0
    return min(1.0, -np.log1p(-most / rows) * max(1.0, _distinct(seen.inputs) / rows))


def _distinct(hashes: IntArray) -> float:
    """How many hashes there were, of which the smallest are known."""
    if len(hashes) < MOST_HASHES:
        return float(len(hashes))
    below = (float(hashes[-1]) + 2.0**63) / 2.0**64
    return len(hashes) / below


def _seen(hashes: IntArray, trained: IntArray) -> int:
    """How many of the hashes are among those of the training data, of which the smallest are
    known."""
    if not len(hashes) or not len(trained):
        return 0
    comparable = hashes
    if len(trained) >= MOST_HASHES:
        comparable = hashes[hashes <= trained[-1]]
    if not len(comparable):
        return 0
    share = float(np.isin(comparable, trained).mean())
    return round(share * len(hashes))
