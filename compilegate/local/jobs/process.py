"""The program that stands between the runner and one job, as `timeout` or `nice` would:

    python -I -S process.py CPUS MAX_SECONDS GRACE_SECONDS LOCKS ALIAS FOLDER VIEW CWD \
        PROGRAM [ARG...]

It starts PROGRAM in CWD, in a process group of its own, on CPUS (ids, with commas), with its own
environment. Standard input is a lifeline. When it closes, because the runner has died (even by
SIGKILL), when `s` comes through it, because the runner stops the job, or when MAX_SECONDS are over,
the job gets SIGTERM, and SIGKILL after GRACE_SECONDS, or as soon as `k` comes. When the job's first
process has ended, all that it left behind is killed, as when a container ends. Then one line about
the end goes to standard error: the reason (exited, stopped, timeout, not started), the code
(negative for a signal) and an error, separated by tabs.

ALIAS, unless it is empty, is made a short name (a symbolic link) for FOLDER, because the path of a
socket has at most 108 characters and a shell splits a path at its spaces. LOCKS are descriptors of
open files whose locks must last as long as this process: the runner may be gone before the job is.

VIEW, unless it is empty, is a JSON object that gives the job a root of its own, as a container has
(`launcher.py:View` says what is in it): a mount namespace, within a user namespace where this
process may not mount. The job keeps its user and group.

Standard library only: it runs before, and apart from, any job environment.
"""

# pathlib and contextlib would double the time that this program takes to start.
# ruff: noqa: PTH103, PTH108, PTH112, PTH113, PTH114, PTH115, PTH123, PTH208, PTH211, SIM105
from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would double the time, too
    from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_CLONE_NEWNS = 0x20000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_AS_THEY_ARE = ("/dev", "/proc", "/sys")
"""Devices and the kernel's own files: neither can be a copy, and both guard themselves."""


class RootError(Exception):
    """The job has no root of its own, and must not run without it."""


class Job:
    """What becomes of the forked process."""

    def __init__(self, argv: list[str], cpus: list[int], view: str, folder: str) -> None:
        self.argv, self.cpus, self.view, self.folder = argv, cpus, view, folder


class Lifeline:
    """What the runner says, and whether it is still there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]
        self.stops = self.kills = False

    def listen(self, wakeup: int, seconds: float) -> None:
        """Wait until something is said or a child has ended, at most so long."""
        readable, _, _ = select.select([*self._descriptors, wakeup], [], [], seconds)
        if wakeup in readable:
            os.read(wakeup, 4096)
        if self._descriptors and self._descriptors[0] in readable:
            said = os.read(self._descriptors[0], 4096)
            self.stops = True  # whatever was said: there is no third word
            self.kills = self.kills or b"k" in said
            if not said:
                self._descriptors = []


def main() -> None:
    """Run one job to its end."""
    cpus, max_seconds, grace_seconds, locks, alias, folder, view, cwd, *argv = sys.argv[1:]
    for descriptor in _integers(locks):
        os.set_inheritable(descriptor, False)
    wakeup = _wake_on_child_exit()
    _process_control(_PR_SET_CHILD_SUBREAPER, 1)
    job = Job(argv, _integers(cpus), view, cwd)
    if alias:
        os.symlink(folder, alias)
    try:
        end = _run(job, float(max_seconds), float(grace_seconds), wakeup)
    finally:
        if alias:
            os.unlink(alias)
    os.write(sys.stderr.fileno(), "{}\t{}\t{}\n".format(*end).encode())


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _run(what: Job, max_seconds: float, grace_seconds: float, wakeup: int) -> tuple[str, int, str]:
    """The job's end: (reason, code, error)."""
    try:
        job = _start(what)
    except OSError as error:
        return "not started", 0, str(error)
    # The job's output must end when the job does, so this process lets go of it.
    _point_at_null(sys.stdout.fileno(), os.O_WRONLY)
    lifeline = Lifeline(sys.stdin.fileno())
    reason, code = _wait(job, wakeup, lifeline, time.monotonic() + max_seconds)
    if code is None:
        _signal_group(job, signal.SIGTERM)
        code = _wait_for_exit(job, wakeup, lifeline, time.monotonic() + grace_seconds)
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


def _start(what: Job) -> int:
    """Fork and execute the job; raises the OSError that stopped it before its first line."""
    error_reader, error_writer = os.pipe()  # closed by a successful exec
    job = os.fork()
    if job == 0:
        try:
            _become_job(what)
        except OSError as error:
            culprit = error.filename or what.argv[0]
            os.write(error_writer, _sentence(f"{culprit}: {error.strerror or error}"))
        except RootError as error:
            os.write(error_writer, _sentence(str(error)))
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            os.write(error_writer, _sentence(f"{type(error).__name__}: {error}"))
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


def _sentence(text: str) -> bytes:
    return " ".join(text.split())[:2000].encode(errors="replace")


def _become_job(what: Job) -> None:
    os.setpgid(0, 0)
    if what.view:
        try:
            _enter_own_root(what.view)
        except OSError as error:
            where = f"at {os.fsdecode(error.filename)}: " if error.filename else ""
            said = f"its own root could not be made: {where}{error.strerror or error}"
            raise RootError(said) from error
    os.chdir(what.folder)
    _process_control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if what.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, what.cpus)
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    _point_at_null(sys.stdin.fileno(), os.O_RDONLY)
    os.execvp(what.argv[0], what.argv)  # noqa: S606 - a list, no shell


def _enter_own_root(text: str) -> None:
    """Make this machine's folders, the job's own among them, the root of this process."""
    import json  # noqa: PLC0415 - 5 ms that only these jobs need

    view = json.loads(text)
    root: str = view["root"]
    binds: list[list[str]] = view["binds"]
    _unshare()
    _mount(None, "/", _MS_REC | _MS_PRIVATE)
    targets = [target for _, target, _ in binds]
    # What is mounted on a folder of this machine is gone when somebody removes that folder.
    anew = [target for source, target, _ in binds if source != target]
    # The folder that holds the root itself comes first, before anything is mounted below it.
    entries = sorted(os.listdir("/"), key=lambda name: not f"{root}/".startswith(f"/{name}/"))
    for name in entries:
        _plant(f"/{name}", root, targets, anew)
    for source, target, may_write in binds:
        if source == target and not may_write:
            _plant(source, root, [other for other in targets if other != target], anew)
            continue
        os.makedirs(root + target, exist_ok=True)
        _mount(source, root + target, _MS_BIND | _MS_REC)
        if not may_write:
            _make_read_only(root + target)
    for source, target in view["files"]:
        if os.path.isfile(root + target):
            _mount(source, root + target, _MS_BIND)
    for target in view["memory"]:
        if os.path.isdir(root + target):
            _mount("tmpfs", root + target, 0, "tmpfs", "mode=1777")
    _mount(root, root, _MS_BIND | _MS_REC)  # what becomes a root must be a mount
    os.chdir(root)
    _check(_libc().pivot_root(b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", _MNT_DETACH), "/")  # the old root lies over the new one


def _unshare() -> None:
    """A mount namespace; where only root may have one, within a user namespace of one user."""
    libc, user, group = _libc(), os.getuid(), os.getgid()
    if user == 0 and libc.unshare(_CLONE_NEWNS) == 0:
        return
    _check(libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare (a mount namespace)")
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)


def _plant(here: str, root: str, targets: list[str], anew: list[str]) -> None:
    """Show a folder, file or link of this machine at its own place below `root`, read-only.

    A folder in which a target must first be made, or is one of those to be made `anew`, is made
    of its entries, because nothing is made in this machine's own folders.
    """
    if here in targets:
        return
    missing = [t for t in targets if t.startswith(f"{here}/") and os.path.realpath(t) != t]
    missing += [t for t in targets if t.startswith(f"{here}/") and not os.path.isdir(t)]
    missing += [t for t in anew if t.startswith(f"{here}/") and here not in _AS_THEY_ARE]
    if missing:
        os.makedirs(root + here, exist_ok=True)
        for name in os.listdir(here) if os.path.isdir(here) else ():
            _plant(f"{here}/{name}", root, targets, anew)
        return
    if os.path.islink(here):
        if not os.path.lexists(root + here):
            os.symlink(os.readlink(here), root + here)
        return
    try:
        if os.path.isdir(here):
            os.makedirs(root + here, exist_ok=True)
        else:
            os.close(os.open(root + here, os.O_CREAT | os.O_CLOEXEC))
        _mount(here, root + here, _MS_BIND | _MS_REC)
    except (PermissionError, FileNotFoundError):
        return  # what this user cannot even see, or has just gone, is not there for the job
    except OSError as error:
        said = f"{here} of this machine is not there for this job: {error.strerror or error}\n"
        os.write(sys.stdout.fileno(), said.encode(errors="replace"))
        return
    if here not in _AS_THEY_ARE:
        _make_read_only(root + here)


def _make_read_only(path: str) -> None:
    """A mount, and all that is mounted below it."""
    import ctypes  # noqa: PLC0415

    attributes = (ctypes.c_uint64 * 4)(_MS_RDONLY, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    target = os.fsencode(path)
    if _libc().syscall(_MOUNT_SETATTR, _AT_FDCWD, target, _AT_RECURSIVE, attributes, size) == 0:
        return
    for mounted in _mounts_at_or_below(path):  # a kernel before 5.12
        # Flags of a mount from outside a user namespace must stay.
        kept = os.statvfs(mounted).f_flag & 0xFFFF & ~_MS_REMOUNT
        _mount(None, mounted, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _mounts_at_or_below(path: str) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [line.split(" ")[4] for line in file]
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        points = [point.replace(f"\\{code}", character) for point in points]
    return [point for point in points if f"{point}/".startswith(f"{path}/")]


def _mount(
    source: str | None, target: str, flags: int, kind: str | None = None, data: str | None = None
) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(_libc().mount(texts[0], texts[1], texts[2], flags, texts[3]), target)


def _libc() -> Any:
    import ctypes  # noqa: PLC0415 - is not everywhere

    library = ctypes.CDLL(None, use_errno=True)
    library.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
    return library


def _check(code: int, path: str) -> None:
    import ctypes  # noqa: PLC0415

    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def _point_at_null(descriptor: int, mode: int) -> None:
    null = os.open(os.devnull, mode)
    os.dup2(null, descriptor)
    os.close(null)


def _wait(job: int, wakeup: int, lifeline: Lifeline, deadline: float) -> tuple[str, int | None]:
    """Wait for the job's end, the lifeline's, or the deadline; the code is None unless it ended."""
    while True:
        code = _exit_code(job)
        if code is not None:
            return "exited", code
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return "timeout", None
        lifeline.listen(wakeup, remaining)
        if lifeline.stops:
            return "stopped", None


def _wait_for_exit(job: int, wakeup: int, lifeline: Lifeline, deadline: float) -> int | None:
    while True:
        code = _exit_code(job)
        remaining = deadline - time.monotonic()
        if code is not None or remaining <= 0 or lifeline.kills:
            return code
        lifeline.listen(wakeup, remaining)


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
        return children_by_parent(os.getpid())


def children_by_parent(parent: int) -> list[int]:
    """The same, asked of every process: one that was missed would be waited for, and not killed."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == parent:
            found.append(int(name))
    return found


def _process_control(option: int, argument: int) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - is not everywhere

        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


if __name__ == "__main__":
    main()
