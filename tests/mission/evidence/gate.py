"""How the corpus reaches the gate: files in, command or job, `verdict.json` out.

The only file of the corpus that knows the gate. Where the command, an option or a key of the
verdict is renamed, it is renamed here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from compilegate.cli import main as command
from compilegate.pipelines.programs.gate import main as program
from tests.mission.evidence.files import Execution

NOTHING = "none"
"""What stands in a verdict where no model is registered."""
EXIT_RELEASED, EXIT_NOTHING_RELEASED = 0, 4


@dataclass(frozen=True)
class Decision:
    """What every edition of the gate decides."""

    candidates: dict[str, str]
    """By arm, `pass`, `fail` or `inconclusive`."""
    baseline: str
    baseline_valid: bool
    registered: str
    """The arm whose model is registered, or NOTHING."""
    reasons: dict[str, tuple[str, ...]]
    """By arm, the sentences of what spoke against it."""
    codes: dict[str, tuple[str, ...]]
    """Their codes, to be shown; nothing is asserted of them."""


def judge(execution: Execution, folder: Path) -> Decision:
    """Write the evidence below the folder, let the gate judge it, and read what it decided.

    An execution that says which jobs it ran is judged by the gate's job, which alone is told.
    """
    experiment = execution.write(folder)
    evidence, output = folder / "evidence", folder / "verdict"
    places = ["--output", str(output)]
    if execution.ran is None:
        asked = ["gate", str(evidence), "--config", str(experiment), *places]
        done = CliRunner().invoke(command, asked, catch_exceptions=False)
        decision = _read(output)
        nothing = decision.registered == NOTHING
        assert done.exit_code == (EXIT_NOTHING_RELEASED if nothing else EXIT_RELEASED), done.output
        return decision
    expected = [f"{arm}:{seed}:{job}" for (arm, seed), job in execution.ran.items()]
    asked = ["--experiment", str(experiment), "--evidence", str(evidence), *places]
    assert program([*asked, "--expect", *expected]) == 0
    return _read(output)


def _read(output: Path) -> Decision:
    verdict = json.loads((output / "verdict.json").read_text(encoding="utf-8"))
    about = {each["arm"]: each for each in (verdict["baseline"], *verdict["candidates"])}
    against = {
        arm: [reason for reason in each["reasons"] if reason["outcome"] != "pass"]
        for arm, each in about.items()
    }
    return Decision(
        candidates={each["arm"]: each["outcome"] for each in verdict["candidates"]},
        baseline=verdict["baseline"]["arm"],
        baseline_valid=verdict["baseline"]["sound"],
        registered=verdict["decision"]["arm"],
        reasons={arm: tuple(it["sentence"] for it in found) for arm, found in against.items()},
        codes={arm: tuple(it["code"] for it in found) for arm, found in against.items()},
    )
