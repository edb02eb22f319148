"""The program that stands between the runner and one job, as `timeout` or `nice` would:

    python -I -S process.py OPTIONS PROGRAM [ARG...]

It starts PROGRAM in a process group of its own, with its own environment, as OPTIONS say: a JSON
object, which `launcher.py:JobCommand` writes.

Standard input is a lifeline. When it closes, because the runner has died (even by SIGKILL), when
`s` comes through it, because the runner stops the job, or when `max_seconds` are over, the job gets
SIGTERM, and SIGKILL after `grace_seconds`, or as soon as `k` comes. When the job's first process
has ended, all that it left behind is killed, as when a container ends. Then one line about the end
goes to standard error: the reason (exited, stopped, timeout, not started), the code (negative for a
signal) and an error, separated by tabs.

With a `view` the job has a root of its own, as a container has: a mount namespace, within a user
namespace where this process may not mount. The job keeps its user and group.

Standard library only: it runs before, and apart from, any job environment.
"""

# pathlib and contextlib would double the time that this program takes to start.
# ruff: noqa: PTH103, PTH108, PTH112, PTH113, PTH114, PTH115, PTH123, PTH208, PTH211, SIM105
from __future__ import annotations

import ctypes
import json
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
_MS_RDONLY, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x1, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_AS_THEY_ARE = ("/dev", "/proc", "/sys")
"""Devices and the kernel's own files: neither can be a copy, and both guard themselves."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - each job has its own


class Lifeline:
    """What the runner says, and whether it is still there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]
        self.heard = b""

    def listen(self, wakeup: int, seconds: float) -> None:
        """Wait until a word comes or a child has ended, at most so long."""
        readable, _, _ = select.select([*self._descriptors, wakeup], [], [], seconds)
        if wakeup in readable:
            os.read(wakeup, 4096)
        if self._descriptors and self._descriptors[0] in readable:
            received = os.read(self._descriptors[0], 4096)
            self.heard += received + b"s"  # to kill is to stop, and so is the runner's end
            if not received:
                self._descriptors = []


def main() -> None:
    options, argv = json.loads(sys.argv[1]), sys.argv[2:]
    for descriptor in options["locks"]:
        os.set_inheritable(descriptor, False)
    wakeup = _wake_on_child_exit()
    _process_control(_PR_SET_CHILD_SUBREAPER, 1)
    alias = options["alias"]
    if alias:
        os.symlink(alias["folder"], alias["name"])
    try:
        end = _run(argv, options, wakeup)
    finally:
        if alias:
            os.unlink(alias["name"])
    os.write(sys.stderr.fileno(), "{}\t{}\t{}\n".format(*end).encode())


def _run(argv: list[str], options: dict[str, Any], wakeup: int) -> tuple[str, int, str]:
    """The job's end: (reason, code, error)."""
    try:
        job = _start(argv, options)
    except OSError as error:
        return "not started", 0, str(error)
    # The job's output must end when the job does, so this process lets go of it.
    _point_at_null(sys.stdout.fileno(), os.O_WRONLY)
    lifeline = Lifeline(sys.stdin.fileno())
    reason, code = "exited", _wait(job, wakeup, lifeline, options["max_seconds"], b"s")
    if code is None:
        reason = "stopped" if lifeline.heard else "timeout"
        _signal_group(job, signal.SIGTERM)
        code = _wait(job, wakeup, lifeline, options["grace_seconds"], b"k")
    _signal_group(job, signal.SIGKILL)
    if code is None:
        code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    _kill_descendants()
    return reason, code, ""


def _wait(job: int, wakeup: int, lifeline: Lifeline, seconds: float, word: bytes) -> int | None:
    """The job's exit code; None if it has not ended by then, or before `word` is heard."""
    deadline = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(job, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        left = deadline - time.monotonic()
        if left <= 0 or word in lifeline.heard:
            return None
        lifeline.listen(wakeup, left)


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _start(argv: list[str], options: dict[str, Any]) -> int:
    """Fork and execute the job; raises the OSError that stopped it before its first line."""
    error_reader, error_writer = os.pipe()  # closed by a successful exec
    job = os.fork()
    if job == 0:
        try:
            why = _become_job(argv, options)
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of it
            why = f"{type(error).__name__}: {error}"
        try:
            os.write(error_writer, " ".join(why.split())[:2000].encode(errors="replace"))
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


def _become_job(argv: list[str], options: dict[str, Any]) -> str:
    """Execute the job; returns why it cannot be."""
    os.setpgid(0, 0)
    try:
        if options["view"]:
            _enter_own_root(**options["view"])
    except OSError as error:
        where = f"at {os.fsdecode(error.filename)}: " if error.filename else ""
        return f"the job's own root could not be made: {where}{error.strerror or error}"
    try:
        os.chdir(options["working_directory"])
        _process_control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if options["cpus"] and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, options["cpus"])
        os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
        _point_at_null(sys.stdin.fileno(), os.O_RDONLY)
        os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell
    except OSError as error:
        return f"{error.filename or argv[0]}: {error.strerror or error}"


def _enter_own_root(root: str, binds: list[dict[str, Any]], files: dict[str, str]) -> None:
    """Make this machine's folders, the job's own among them, the root of this process."""
    _unshare()
    _mount(None, "/", _MS_REC | _MS_PRIVATE)
    targets = [bind["target"] for bind in binds]
    # What is mounted on a folder of this machine is gone when somebody removes that folder.
    anew = [bind["target"] for bind in binds if bind["source"] != bind["target"]]
    # The folder that holds the root itself comes first, before anything is mounted below it.
    entries = sorted(os.listdir("/"), key=lambda name: not f"{root}/".startswith(f"/{name}/"))
    for name in entries:
        _show_read_only(f"/{name}", root, targets, anew)
    for bind in binds:
        source, target = bind["source"], bind["target"]
        if bind["may_write"]:
            os.makedirs(root + target, exist_ok=True)
            _mount(source, root + target, _MS_BIND | _MS_REC)
        else:
            _show_read_only(target, root, [other for other in targets if other != target], anew)
    for target, source in files.items():
        if os.path.isfile(root + target):
            _mount(source, root + target, _MS_BIND)
    if os.path.isdir(root + _SHARED_MEMORY):
        _mount("tmpfs", root + _SHARED_MEMORY, 0, "tmpfs", "mode=1777")
    _mount(root, root, _MS_BIND | _MS_REC)  # what becomes a root must be a mount
    os.chdir(root)
    _check(_LIBC.pivot_root(b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", _MNT_DETACH), "/")  # the old root lies over the new one


def _unshare() -> None:
    """A mount namespace; where only root may have one, within a user namespace of one user."""
    user, group = os.getuid(), os.getgid()
    if user == 0 and _LIBC.unshare(_CLONE_NEWNS) == 0:
        return
    _check(_LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare (a mount namespace)")
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, line in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)


def _show_read_only(here: str, root: str, targets: list[str], anew: list[str]) -> None:
    """Show a folder, file or link of this machine at its own place below `root`, read-only.

    A folder in which a target must first be made, or is one of those to be made `anew`, is made
    of its entries, because nothing is made in this machine's own folders.
    """
    if here in targets:
        return
    if any(
        os.path.realpath(target) != target
        or not os.path.isdir(target)
        or (target in anew and here not in _AS_THEY_ARE)
        for target in targets
        if target.startswith(f"{here}/")
    ):
        os.makedirs(root + here, exist_ok=True)
        for name in os.listdir(here) if os.path.isdir(here) else ():
            _show_read_only(f"{here}/{name}", root, targets, anew)
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
    except OSError as error:
        # What this user cannot even see, or has just gone, is not there for the job.
        if not isinstance(error, (PermissionError, FileNotFoundError)):
            sentence = (
                f"{here} of this machine is not visible to this job: {error.strerror or error}\n"
            )
            os.write(sys.stdout.fileno(), sentence.encode(errors="replace"))
        return
    if here not in _AS_THEY_ARE:
        _make_read_only(root + here)


def _make_read_only(path: str) -> None:
    """A mount, and all that is mounted below it; needs Linux 5.12."""
    attributes = _MS_RDONLY.to_bytes(8, sys.byteorder) + bytes(24)
    arguments = (_AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, len(attributes))
    _check(_LIBC.syscall(_MOUNT_SETATTR, *arguments), path)


def _mount(
    source: str | None, target: str, flags: int, kind: str | None = None, data: str | None = None
) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check(_LIBC.mount(*texts[:3], flags, texts[3]), target)


def _check(code: int, path: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def _point_at_null(descriptor: int, mode: int) -> None:
    null = os.open(os.devnull, mode)
    os.dup2(null, descriptor)
    os.close(null)


def _signal_group(job: int, number: int) -> None:
    try:
        os.killpg(job, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it


def _kill_descendants() -> None:
    """Kill what left the job's process group: as subreaper, this process has inherited it."""
    while True:
        for child in _children_of(os.getpid()):
            os.kill(child, signal.SIGKILL)  # at worst a zombie: nobody else waits for it
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children_of(parent: int) -> list[int]:
    """Children of a process, from every process's stat file, which any kernel has: one that was
    missed would be waited for, and not killed."""
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
        _LIBC.prctl(option, argument, 0, 0, 0)


if __name__ == "__main__":
    main()
