"""The program that stands between the runner and one job, as `timeout` or `nice` would:

    python -I -S process.py CPUS MAX_SECONDS GRACE_SECONDS LOCKS ALIAS FOLDER PROGRAM [ARG...]

It starts PROGRAM in a process group of its own, on CPUS (ids, with commas), with its own
environment and working folder. Standard input is a lifeline: when it closes, because the runner
stops the job or has died (even by SIGKILL), or when MAX_SECONDS are over, the job gets SIGTERM, and
SIGKILL after GRACE_SECONDS. When the job's first process has ended, all that it left behind is
killed, as when a container ends. Then one line about the end goes to standard error: the reason
(exited, stopped, timeout, not started), the code (negative for a signal) and an error, separated
by tabs.

ALIAS is made a short name (a symbolic link) for FOLDER, the job's temporary files, because the
path of a socket has at most 108 characters. LOCKS are descriptors of open files whose locks must
last as long as this process: the runner may be gone before the job is.

Standard library only: it runs before, and apart from, any job environment.
"""

# pathlib and contextlib would double the time that this program takes to start.
# ruff: noqa: PTH108, PTH123, PTH211, SIM105
from __future__ import annotations

import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Run one job to its end."""
    cpus, max_seconds, grace_seconds, locks, alias, folder, *argv = sys.argv[1:]
    for descriptor in _integers(locks):
        os.set_inheritable(descriptor, False)
    wakeup = _wake_on_child_exit()
    _process_control(_PR_SET_CHILD_SUBREAPER, 1)
    os.symlink(folder, alias)
    try:
        end = _run(argv, _integers(cpus), float(max_seconds), float(grace_seconds), wakeup)
    finally:
        os.unlink(alias)
    os.write(sys.stderr.fileno(), "{}\t{}\t{}\n".format(*end).encode())


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _run(
    argv: list[str], cpus: list[int], max_seconds: float, grace_seconds: float, wakeup: int
) -> tuple[str, int, str]:
    """The job's end: (reason, code, error)."""
    try:
        job = _start(argv, cpus)
    except OSError as error:
        return "not started", 0, str(error)
    # The job's output must end when the job does, so this process lets go of it.
    _point_at_null(sys.stdout.fileno(), os.O_WRONLY)
    reason, code = _wait(job, wakeup, time.monotonic() + max_seconds)
    if code is None:
        _signal_group(job, signal.SIGTERM)
        code = _wait_for_exit(job, wakeup, time.monotonic() + grace_seconds)
    _signal_group(job, signal.SIGKILL)
    if code is None:
        code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    _kill_descendants()
    return reason, code, ""


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _start(argv: list[str], cpus: list[int]) -> int:
    """Fork and execute the job; raises the OSError that stopped it before its first line."""
    error_reader, error_writer = os.pipe()  # closed by a successful exec
    job = os.fork()
    if job == 0:
        try:
            _become_job(argv, cpus)
        except OSError as error:
            os.write(error_writer, f"{argv[0]}: {error.strerror}".encode())
        finally:
            os._exit(127)
    os.close(error_writer)
    try:
        os.setpgid(job, job)  # both sides do it, so that neither runs before it is done
    except OSError:
        pass  # the job was faster
    failure = os.read(error_reader, 4096).decode()
    os.close(error_reader)
    if failure:
        os.waitpid(job, 0)
        raise OSError(failure)
    return job


def _become_job(argv: list[str], cpus: list[int]) -> None:
    os.setpgid(0, 0)
    _process_control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    _point_at_null(sys.stdin.fileno(), os.O_RDONLY)
    os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell


def _point_at_null(descriptor: int, mode: int) -> None:
    null = os.open(os.devnull, mode)
    os.dup2(null, descriptor)
    os.close(null)


def _wait(job: int, wakeup: int, deadline: float) -> tuple[str, int | None]:
    """Wait for the job's end, the lifeline's, or the deadline; the code is None unless it ended."""
    lifeline = sys.stdin.fileno()
    while True:
        code = _exit_code(job)
        if code is not None:
            return "exited", code
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return "timeout", None
        readable, _, _ = select.select([lifeline, wakeup], [], [], remaining)
        if lifeline in readable and not os.read(lifeline, 4096):
            return "stopped", None
        if wakeup in readable:
            os.read(wakeup, 4096)


def _wait_for_exit(job: int, wakeup: int, deadline: float) -> int | None:
    while True:
        code = _exit_code(job)
        remaining = deadline - time.monotonic()
        if code is not None or remaining <= 0:
            return code
        if select.select([wakeup], [], [], remaining)[0]:
            os.read(wakeup, 4096)


def _exit_code(job: int) -> int | None:
    pid, status = os.waitpid(job, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def _signal_group(job: int, number: int) -> None:
    try:
        os.killpg(job, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it


def _kill_descendants() -> None:
    """Kill what left the job's process group: as subreaper, this process has inherited it."""
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)  # at worst a zombie: nobody else waits for it
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # not Linux, or a kernel without this file
        return []


def _process_control(option: int, argument: int) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - is not everywhere

        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


if __name__ == "__main__":
    main()
