"""Proves in an empty account what only a real one can prove, and removes all that it made.

    make prove-aws                              prints what comes and what it costs, and asks
    make prove-aws FLAGS="--with network,gpu"   all jobs in a VPC of the project; a job on a GPU
    make prove-aws FLAGS=--yes                  asks nothing
    make prove-aws FLAGS=--clean                removes what a trial left that was killed

Exit code 0: every claim that was tried is proven, and nothing is left. 1: some are not; the table
says which. 2: refused before anything was made.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.account.session import open_session
from compilegate.errors import CompilegateError
from tests.account_proof.claims import CLAIMS, REMOVAL, Claim
from tests.account_proof.trial import GPU, HERE, NETWORK, PROJECTS, Trial

PROVEN, REFUTED, NOT_TRIED = "proven", "refuted", "not tried"
STATE = "state.json"
"""Beside this file: what docs/aws.md says of the claims; each trial's begins with that."""
PAGE = """\
Account {account}, {region}

Two projects, {projects}, are deployed for this alone, with small workloads; nothing else in
the account is touched. About ten executions run on ml.m5.xlarge, and an endpoint on ml.m5.large.
Whatever happens, everything is removed at the end: after Ctrl-C, too, and after a kill with
`make prove-aws FLAGS=--clean`. Keys stay for 30 days as pending deletion, and jobs stay on
SageMaker's lists; neither costs anything.

 no.  at most USD  minutes  claim
{claims}

Together at most {usd:.2f} USD and {hours:.1f} hours, for which the credentials have to last.
Not tried: {others}.
"""


def main(arguments: Sequence[str], pause: Callable[[float], None] = time.sleep) -> int:
    parser = argparse.ArgumentParser(prog="make prove-aws", description="Prove in a real account.")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--clean", action="store_true", help="only remove what a trial left")
    parser.add_argument("--with", dest="chosen", default="", help=f"{NETWORK},{GPU}")
    parser.add_argument("--folder", type=Path, default=Path(".cache", "prove-aws"))
    given = parser.parse_args(arguments)
    chosen = frozenset(given.chosen.split(",")) - {""}
    if chosen - {NETWORK, GPU}:
        parser.error(f"--with is {given.chosen}, expected {NETWORK}, {GPU} or both")
    wanted = [] if given.clean else [claim for claim in CLAIMS if claim.option in {"", *chosen}]
    claims = [claim for claim in wanted if claim.proof and claim.proof not in REMOVAL]
    try:
        trial = Trial(given.folder.resolve(), open_session(None), chosen, pause)
        if claims and (there := trial.things()):
            raise CompilegateError(
                f"account {trial.session.account} has {', '.join(there[:3])}, expected nothing of "
                f"{' or '.join(PROJECTS.values())}; if a trial left it, remove it with: make "
                "prove-aws FLAGS=--clean"
            )
        print(_page(trial, claims))
        if not given.yes and not _agreed():
            raise CompilegateError("nothing was started; to be asked nothing, use FLAGS=--yes")
        trial.make_folder()
    except (BotoCoreError, ClientError, CompilegateError) as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    states = json.loads((HERE / STATE).read_text(encoding="utf-8"))
    outcomes: dict[str, str] = {}
    try:
        for claim in claims:
            _try(trial, claim, outcomes, states)
    except KeyboardInterrupt:
        outcomes[""] = NOT_TRIED
        print("interrupted: removing what was made; Ctrl-C once more leaves it there", flush=True)
    try:
        for claim in CLAIMS:
            if claim.proof in REMOVAL:
                _try(trial, claim, outcomes, states)
    except KeyboardInterrupt:
        outcomes[""] = NOT_TRIED
        print("interrupted again: remove the rest with: make prove-aws FLAGS=--clean")
    print(f"\n{table(states)}\n\n{trial.folder / STATE} has the states")
    return 0 if {*outcomes.values()} == {PROVEN} else 1


def _agreed() -> bool:
    """Whether a person says yes; without a terminal nobody does."""
    return sys.stdin.isatty() and input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def _page(trial: Trial, claims: Sequence[Claim]) -> str:
    """What is printed before anything begins."""
    others = [f"{claim.number} (--with {claim.option})" for claim in CLAIMS if claim.option]
    lines = [f"{each.number:4}  {each.usd:11.2f}  {each.minutes:7}  {each.says}" for each in claims]
    return PAGE.format(
        account=trial.session.account,
        region=trial.session.region,
        projects=" and ".join(PROJECTS.values()),
        claims="\n".join(lines),
        usd=sum(claim.usd for claim in claims),
        hours=sum(claim.minutes for claim in claims) / 60,
        others=", ".join(others),
    )


def _try(trial: Trial, claim: Claim, outcomes: dict[str, str], states: dict[str, Any]) -> None:
    """Try a claim and keep what came of it: whatever went wrong, the next one gets its turn."""
    print(f"{claim.number}. {claim.says} ...", flush=True)
    if missing := [name for name in claim.needs if outcomes.get(name) != PROVEN]:
        outcomes[claim.proof] = NOT_TRIED
        print(f"   {NOT_TRIED}: needs {missing}", flush=True)
        return
    trial.execution = ""
    try:
        state, seen = PROVEN, claim.prove(trial)
    except Exception as error:  # noqa: BLE001  a bug of a proof must not leave things that cost
        state, seen = REFUTED, f"{type(error).__name__}: {error}"
    outcomes[claim.proof] = state
    states[str(claim.number)] = {
        "state": state,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "region": trial.session.region,
        "execution": trial.execution.rpartition("/")[2],
        "seen": seen,
    }
    (trial.folder / STATE).write_text(json.dumps(states, indent=2) + "\n", encoding="utf-8")
    print(f"   {state}: {seen}", flush=True)


def table(states: Mapping[str, Mapping[str, str]]) -> str:
    """The table of docs/aws.md."""
    lines = ["| no. | claim | at most USD | tried | state |", "|--:|---|--:|---|---|"]
    for claim in CLAIMS:
        usd, tried = "", "by hand"
        if claim.proof:
            usd, tried = f"{claim.usd:.2f}", claim.option or "always"
        found = states.get(str(claim.number), {"state": NOT_TRIED})
        parts = [found[key] for key in ("state", "date", "region", "execution") if found.get(key)]
        cells = (str(claim.number), claim.says, usd, tried, ", ".join(parts))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
