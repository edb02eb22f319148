"""What came of each claim, as a table and as JSON. Pure but for the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from compilegate.infra.proving.claims import Claim
from compilegate.job.files import whole_file

PROVED, FAILED, NOT_TRIED = "proved", "not proved", "not tried"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One claim's."""

    key: str
    says: str
    outcome: str
    """`proved`, `not proved` or `not tried`."""
    said: str
    """What was seen, or why not."""
    seconds: float
    usd: float
    """What the claim says that its proof costs; 0 for one that was not tried."""


@dataclass
class Record:
    """All of them, in a file that is whole after each."""

    path: Path
    account: str
    region: str
    began: str
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, claim: Claim, outcome: str, said: str, seconds: float = 0.0) -> Outcome:
        """Keep what came of a claim."""
        added = Outcome(
            key=claim.key,
            says=claim.says,
            outcome=outcome,
            said=said,
            seconds=round(seconds, 1),
            usd=0.0 if outcome == NOT_TRIED else claim.usd,
        )
        self.outcomes.append(added)
        self.write()
        return added

    def write(self) -> None:
        document = {
            "account": self.account,
            "region": self.region,
            "began": self.began,
            "claims": [asdict(outcome) for outcome in self.outcomes],
        }
        with whole_file(self.path) as part:
            part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    def holds(self, key: str) -> bool:
        return any(each.key == key and each.outcome == PROVED for each in self.outcomes)

    @property
    def whole(self) -> bool:
        """Whether every claim that was looked at was proved."""
        return all(each.outcome == PROVED for each in self.outcomes)


def table(outcomes: Sequence[Outcome]) -> str:
    """For people."""
    rows = [("CLAIM", "OUTCOME", "MINUTES", "WHAT WAS SEEN")]
    rows += [
        (each.key, each.outcome, f"{each.seconds / 60:.1f}", each.said.splitlines()[0][:160])
        for each in outcomes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )
