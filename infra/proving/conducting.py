"""Tries the claims one after the other, and leaves the account as it was, whatever came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.errors import CompilegateError
from compilegate.infra.proving import deploying, executing, serving
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.claims import CLAIMS, REMOVAL, Claim, proven_here
from compilegate.infra.proving.cleaning import empty, finish
from compilegate.infra.proving.inventory import things_of
from compilegate.infra.proving.outcomes import FAILED, NOT_TRIED, PROVED, Record

PROOFS: Mapping[str, Callable[[Proving], str]] = {
    proof.__name__: proof
    for proof in (
        deploying.deploy,
        deploying.images,
        deploying.definition,
        executing.jobs,
        executing.cache,
        executing.isolation,
        serving.package,
        serving.approval,
        serving.answers,
        serving.rejection,
        serving.rollback,
        serving.topic,
        executing.delivery,
        executing.overlap,
        executing.schedule,
        executing.month,
        deploying.orphan,
        deploying.destroy,
    )
}
"""What proves each claim, by its key. Each returns what it saw and raises an error if that is not
what was claimed."""
NAMED = 5
"""Things that are left, by name; of more the number is said."""


@dataclass
class Conductor:
    """One trial of the claims."""

    proving: Proving
    record: Record
    say: Callable[[str], None]
    proofs: Mapping[str, Callable[[Proving], str]] = field(default_factory=lambda: PROOFS)
    interrupted: bool = False

    def conduct(self, claims: Sequence[Claim] = CLAIMS) -> bool:
        """Try all of them, then remove everything; returns whether all of them held.

        Ctrl-C ends the trial and begins the removal; once more ends that, too.
        """
        chosen = proven_here(claims)
        try:
            for claim in chosen:
                if claim.key not in REMOVAL:
                    self._try(claim)
        except KeyboardInterrupt:
            self.interrupted = True
            self.say("interrupted: removing what was made; Ctrl-C once more leaves it there")
        for claim in chosen:
            tried = {outcome.key for outcome in self.record.outcomes}
            if claim.key not in REMOVAL and claim.key not in tried:
                self.record.add(claim, NOT_TRIED, "interrupted before it")
        return self.remove(claims)

    def remove(self, claims: Sequence[Claim] = CLAIMS) -> bool:
        """Remove everything; returns whether all that is on record held, and nothing is left."""
        destroy, nothing_left = [
            next(claim for claim in claims if claim.key == key) for key in REMOVAL
        ]
        self.say("removing everything")
        for problem in empty(self.proving):
            self.say(f"  {problem}")
        self._look(destroy, lambda: self.proofs[destroy.key](self.proving))
        problems = finish(self.proving)
        self._look(nothing_left, lambda: self._nothing_left(problems))
        return self.record.whole and not self.interrupted

    def _try(self, claim: Claim) -> None:
        missing = [key for key in claim.after if not self.record.holds(key)]
        if missing:
            self._tell(claim, NOT_TRIED, f"needs {', '.join(missing)}", 0.0)
            return
        self._look(claim, lambda: self.proofs[claim.key](self.proving))

    def _look(self, claim: Claim, proof: Callable[[], str]) -> None:
        """Keep what comes of it: whatever went wrong, the next one gets its turn."""
        self.say(f"{claim.key}: {claim.says} ...")
        self.proving.commands.begin(claim)
        began = time.monotonic()
        try:
            outcome, said = PROVED, proof()
        except (BotoCoreError, ClientError, CompilegateError, OSError) as error:
            outcome, said = FAILED, str(error)
        except KeyboardInterrupt:
            self.record.add(claim, FAILED, "interrupted", time.monotonic() - began)
            raise
        except Exception as error:  # noqa: BLE001  a bug of a proof must not leave things that cost
            outcome, said = FAILED, f"{type(error).__name__}: {error}"
        self._tell(claim, outcome, said, time.monotonic() - began)

    def _tell(self, claim: Claim, outcome: str, said: str, seconds: float) -> None:
        added = self.record.add(claim, outcome, said, seconds)
        self.say(f"  {outcome}: {added.said}")

    def _nothing_left(self, problems: Sequence[str]) -> str:
        there = things_of(self.proving.session, self.proving.names)
        if there:
            more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
            named = ", ".join(str(thing) for thing in there[:NAMED])
            raise LeftOverError("; ".join([f"left: {named}{more}", *problems]))
        return "no stack, bucket, role, policy, endpoint, model or log of the project"


class LeftOverError(CompilegateError):
    """The account is not as it was. The message names what is there."""
