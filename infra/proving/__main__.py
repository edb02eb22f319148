"""Proves in a real account what only a real account can prove, and removes what it made.

    make prove-aws                 says what it costs, and asks
    make prove-aws FLAGS=--yes     asks nothing
    make prove-aws FLAGS=--clean   removes what a trial left that was killed

Exit code 0: every claim was proved, and nothing is left. 1: some was not; the table says which.
2: refused before anything was made; standard error says why.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, STAGE_VARIABLE, Names, read_settings
from compilegate.errors import CompilegateError
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.claims import CLAIMS, cost, hours, proven_here
from compilegate.infra.proving.commands import Commands
from compilegate.infra.proving.conducting import Conductor
from compilegate.infra.proving.folder import Folder
from compilegate.infra.proving.inventory import things_of
from compilegate.infra.proving.outcomes import Record, table

HELD, NOT_HELD, REFUSED = 0, 1, 2
PLACE = Path(".cache", "prove-aws")
"""Below the current folder: the project, what commands printed, and the outcomes."""
CDK = Path("node_modules", ".bin", "cdk")
NAMED = 3


class RefusedError(CompilegateError):
    """Nothing was started. The message says what has to change."""


def main(arguments: Sequence[str]) -> int:
    given = _parsed(arguments)
    # A stage of somebody's own project is none of this one.
    os.environ.pop(STAGE_VARIABLE, None)
    try:
        session = open_session(None)
        proving = prepare(session, given.folder.resolve())
        record = Record(
            path=given.folder / "outcomes.json",
            account=session.account,
            region=session.region,
            began=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
        conductor = Conductor(proving, record, _say)
        if not given.clean:
            refuse_things(proving)
        _agree(session, clean=given.clean, asked=not given.yes)
    except (BotoCoreError, ClientError, CompilegateError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        held = conductor.remove() if given.clean else conductor.conduct()
    except KeyboardInterrupt:
        print("interrupted; remove what is there with: make prove-aws FLAGS=--clean")
        return NOT_HELD
    finally:
        signal.signal(signal.SIGTERM, before)
    print(f"\n{table(record.outcomes)}\n\n{record.path} has all of it")
    return HELD if held else NOT_HELD


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove-aws", description="Prove in a real account.")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--clean", action="store_true", help="only remove what a trial left")
    parser.add_argument(
        "--folder", type=Path, default=PLACE, help="where the trial keeps its files"
    )
    return parser.parse_args(arguments)


def prepare(session: AwsSession, folder: Path) -> Proving:
    """The project in its folder. Raises SettingsError, RefusedError."""
    cdk = CDK.absolute()
    if not cdk.exists():
        raise RefusedError(f"{cdk} is missing; `make prove-aws` installs it")
    project = Folder(folder / "project")
    project.make(session.account, session.region)
    names = Names(read_settings(project.path / SETTINGS_FILE))
    commands = Commands(folder=project.path, cdk=cdk, log=folder / "commands.log")
    return Proving(
        session=session,
        names=names,
        folder=project,
        commands=commands,
        pause=time.sleep,
        now=lambda: datetime.now(UTC),
    )


def refuse_things(proving: Proving) -> None:
    """A trial only ever removes what it made. Raises RefusedError."""
    there = things_of(proving.session, proving.names)
    if there:
        named = ", ".join(str(thing) for thing in there[:NAMED])
        more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
        raise RefusedError(
            f"account {proving.session.account}, {proving.session.region}, has things of "
            f"{proving.names.settings.project} already: {named}{more}, allowed: none; if a trial "
            "left them, remove them with: make prove-aws FLAGS=--clean"
        )


def _agree(session: AwsSession, *, clean: bool, asked: bool) -> None:
    """Say what comes, and ask. Raises RefusedError without a yes."""
    print(f"account {session.account}, {session.region}")
    claims = proven_here()
    if not clean:
        for claim in claims:
            print(f"  {claim.usd:5.2f} USD  {claim.key}: {claim.says}")
    by_hand = len(CLAIMS) - len(claims)
    print(
        "Everything of the project cgproof is removed."
        if clean
        else f"Together about {cost(claims):.2f} USD, and up to {hours(claims):.0f} hours, for "
        "which the credentials have to last. Everything that is made is removed at the end. "
        f"{by_hand} more claims need a person (docs/aws.md)."
    )
    if not asked:
        return
    if not sys.stdin.isatty():
        raise RefusedError("found no terminal to ask at, allowed: make prove-aws FLAGS=--yes")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise RefusedError("nothing was started")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
