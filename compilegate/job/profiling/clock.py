"""The clock of a job's steps, where the job is profiled: what it is told, the session is told."""

from __future__ import annotations

from typing import Any, List

from compilegate.job.profiling.session import Session


class ProfiledClock:
    """Measures as the clock that it stands before, and ends the job when the profile is done."""

    def __init__(self, clock: Any, session: Session) -> None:
        self._clock = clock
        self._session = session
        session.says_steps = True

    def begin(self) -> None:
        """As the other clock."""
        self._clock.begin()

    def begin_wait(self) -> None:
        """The step waits for its batch."""
        self._clock.begin_wait()
        self._session.fetching()

    def end_wait(self) -> None:
        """It has it."""
        self._session.fetched()
        self._clock.end_wait()

    def pause(self) -> None:
        """An evaluation begins."""
        self._clock.pause()
        self._session.elsewhere()

    def resume(self) -> None:
        """It is over."""
        self._clock.resume()

    def end(self) -> None:
        """The step ends; after the last one, so does the process."""
        self._clock.end()
        self._session.end_step()

    def abandon(self) -> None:
        """It was none."""
        self._clock.abandon()

    def seconds(self) -> List[float]:
        """Those of each step so far."""
        return list(self._clock.seconds())

    def waits(self) -> List[float]:
        """The same of their waits."""
        return list(self._clock.waits())
