"""Starts the processes of a job's hosts together, and ends them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob
from compilegate.local.jobs.printed.metrics import PrintedAt


@dataclass(frozen=True)
class HostCommand:
    """What one host runs, and where its output is kept."""

    name: str
    command: JobCommand
    log: Path
    printed_at: PrintedAt


@dataclass(frozen=True)
class HostEnd:
    """The end of the host that decided the job's."""

    name: str
    log: Path
    end: JobEnd


def run_hosts(
    running: RunningJob, hosts: Sequence[HostCommand], on_line: Callable[[str], None]
) -> HostEnd:
    """Run all to their end. The first that fails ends the others, as on SageMaker.

    Of several hosts, a line begins with the name of the one that printed it.
    """
    first, *others = hosts
    if not others:
        end = running.run(first.command, first.log, on_line, first.printed_at)
        return HostEnd(first.name, first.log, end)
    running.start_together()

    def run(host: HostCommand) -> JobEnd:
        def tell(line: str) -> None:
            on_line(f"[{host.name}] {line}")

        try:
            return running.run(host.command, host.log, tell, host.printed_at)
        except BaseException:
            running.end_together()
            raise

    failed: HostEnd | None = None
    with ThreadPoolExecutor(len(hosts)) as pool:
        futures = {pool.submit(run, host): host for host in hosts}
        for future in as_completed(futures):
            host, end = futures[future], future.result()
            if failed is None and not end.succeeded:
                failed = HostEnd(host.name, host.log, end)
                running.end_together()
    leader = next(future.result() for future, host in futures.items() if host is first)
    return failed or HostEnd(first.name, first.log, leader)
