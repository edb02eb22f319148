"""The account as the proofs see it: its clients, the deployed names, and patience."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from compilegate.account.deployed import read_outputs
from compilegate.account.session import AwsSession
from compilegate.account.settings import Names
from compilegate.infra.proving.commands import Commands, NotProvedError
from compilegate.infra.proving.folder import WORKLOAD, Folder

EVERY_SECONDS = 15.0
"""Between two looks at what takes minutes."""
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Proving:
    """What every proof works with."""

    session: AwsSession
    names: Names
    folder: Folder
    commands: Commands
    pause: Callable[[float], None]
    """Waits for so many seconds."""
    now: Callable[[], datetime]

    def client(self, service: str) -> Any:
        return self.session.client(service)

    @property
    def pipeline(self) -> str:
        return self.names.pipeline(WORKLOAD)

    @property
    def bucket(self) -> str:
        return self.names.bucket(self.session.account, self.session.region)

    def outputs(self, workload: str = WORKLOAD) -> dict[str, str]:
        """What a workload's stack says of itself."""
        return dict(read_outputs(self.session, self.names.workload_stack(workload)).values)

    def until(self, what: str, minutes: float, look: Callable[[], Found | None]) -> Found:
        """What `look` finds, once it finds something. Raises NotProvedError after `minutes`."""
        for _ in range(int(minutes * 60 / EVERY_SECONDS) + 1):
            found = look()
            if found is not None:
                return found
            self.pause(EVERY_SECONDS)
        raise NotProvedError(f"{what}: not seen within {minutes:.0f} minutes")
