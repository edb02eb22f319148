"""The clock of a job's steps, where the job is profiled."""

from __future__ import annotations

from typing import Any

from compilegate.job.profiling.session import Session


class ProfiledClock:
    """Measures as the clock that it stands before, and ends the job when the profile is done."""

    def __init__(self, clock: Any, session: Session) -> None:
        self._clock = clock
        self._session = session
        session.follow(clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def begin_wait(self) -> None:
        """The step waits for its batch."""
        self._clock.begin_wait()
        self._session.begin_wait()

    def end_wait(self) -> None:
        """It has it."""
        self._session.end_wait()
        self._clock.end_wait()

    def end(self) -> None:
        """The step ends; after the last one, so does the process."""
        self._clock.end()
        self._session.end_step()
