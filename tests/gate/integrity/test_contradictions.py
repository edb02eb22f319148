"""Evidence that contradicts itself, beyond the mistakes of `test_exploits`: none of it passes.

Each builds on a sound execution whose candidate passes; what is changed is changed with all that
follows from it, so that nothing but the contradiction itself can be found.
"""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.reasons import Code, Outcome
from tests.gate.integrity.changes import ARMS, SEEDS, change_compiler


def data_of_a_pattern(execution):
    for arm in ARMS:
        for seed in SEEDS:
            digests = execution.record(arm, seed).evidence.digests
            execution.change_evidence(arm, seed, digests={**digests, "data": "deadbeef" * 8})


def a_model_with_the_digest_of_the_data(execution):
    digests = execution.record("fast", 1).evidence.digests
    execution.change_evidence("fast", 1, digests={**digests, "model": digests["data"]})


def megabytes_for_bytes(execution):
    for seed in SEEDS:
        execution.change_evidence("fast", seed, peak_memory_bytes=5000)


def a_proof_of_a_name_and_no_graph(execution):
    proof = {"backend": "inductor", "unique_graphs": 0}
    for seed in SEEDS:
        change_compiler(execution, "fast", seed, proof=proof)


def pairs_copied_from_another_job(execution):
    execution.pair("fast", 1, 1.6)
    first = execution.record("fast", 1)
    for seed in SEEDS[1:]:
        execution.put_pairs("fast", seed, first.evidence.paired_speed, first.paired)


def parity_of_zeros_under_the_compiler(execution):
    for seed in SEEDS:
        compiled = execution.record("fast", seed).parity.compiled
        execution.change_parity("fast", seed, compiled=np.zeros_like(compiled))


def parity_below_zero(execution):
    for seed in SEEDS:
        compiled = execution.record("fast", seed).parity.compiled
        execution.change_parity("fast", seed, compiled=-compiled)


CONTRADICTIONS = [
    (data_of_a_pattern, Code.DIGEST_PLACEHOLDER),
    (a_model_with_the_digest_of_the_data, Code.DIGEST_PLACEHOLDER),
    (megabytes_for_bytes, Code.EVIDENCE_IMPLAUSIBLE),
    (a_proof_of_a_name_and_no_graph, Code.COMPILER_NO_PROOF),
    (pairs_copied_from_another_job, Code.EVIDENCE_DUPLICATED),
    (parity_of_zeros_under_the_compiler, Code.PARITY_NOT_MEASURED),
    (parity_below_zero, Code.PARITY_NOT_MEASURED),
]


@pytest.mark.parametrize(("contradiction", "code"), CONTRADICTIONS)
def test_it_does_not_pass_and_says_why(execution, contradiction, code):
    assert execution.judge().candidates[0].outcome is Outcome.PASS
    contradiction(execution)
    verdict = execution.judge()
    candidate = verdict.candidates[0]
    assert candidate.outcome is not Outcome.PASS
    found = [*candidate.reasons, *verdict.baseline.reasons]
    assert code in {reason.code for reason in found if reason.outcome is not Outcome.PASS}
    for reason in found:
        assert reason.sentence.isprintable()
        assert len(reason.sentence) < 700
