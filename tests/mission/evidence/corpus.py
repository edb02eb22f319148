"""All entries by name."""

from __future__ import annotations

from tests.mission.evidence.entries.accidents_in_files import IN_FILES_AND_DATA
from tests.mission.evidence.entries.accidents_in_trainings import IN_TRAININGS
from tests.mission.evidence.entries.honest_conditions import IN_CONDITIONS
from tests.mission.evidence.entries.honest_models import IN_MODELS
from tests.mission.evidence.entries.worse import WORSE
from tests.mission.evidence.entry import Entry
from tests.mission.evidence.gate import Decision

GROUPS: dict[str, list[Entry]] = {
    "honest": [*IN_MODELS, *IN_CONDITIONS],
    "accident": [*IN_FILES_AND_DATA, *IN_TRAININGS],
    "worse": WORSE,
}
CORPUS = {f"{group}/{entry.name}": entry for group, them in GROUPS.items() for entry in them}


def agrees(entry: Entry, found: Decision) -> bool:
    """Whether the decision is one that the entry allows."""
    right = entry.right
    return (
        found.candidates.keys() == right.candidates.keys()
        and all(found.candidates[arm] in allowed for arm, allowed in right.candidates.items())
        and found.baseline_valid in right.baseline_valid
        and found.registered in right.registered
    )
