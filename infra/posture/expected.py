"""What advice expects of a workload's arms when it is deployed, to be told beside what they do."""

from __future__ import annotations

from compilegate.advice import advise, facts_of
from compilegate.advice.told.foretold import foretold_of_arms
from compilegate.infra.project import DeclaredWorkload
from compilegate.pipelines.staging import imported_libraries
from compilegate.posture.expected import Expected


def expected_of(declared: DeclaredWorkload) -> tuple[Expected, ...]:
    """The same for every synth of the same files: neither the day nor what lies on this machine
    takes part."""
    workload = declared.workload
    facts = facts_of(workload, libraries=imported_libraries(workload, declared.path))
    return foretold_of_arms(advise(facts), workload)
