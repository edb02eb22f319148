"""The functions of `from compilegate import job`, which act on the one job of the process; the
first call starts it."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from compilegate.job.errors import CompilegateError, CompilerError, InputError
from compilegate.job.script.config import Baseline as Baseline
from compilegate.job.script.config import JobConfig, read_config
from compilegate.job.script.job import Job

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    _P = ParamSpec("_P")
_R = TypeVar("_R")

_started: Job | None = None


def start(
    *,
    seed: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    precision: str | None = None,
    log_every: int | None = None,
    shapes: int = 1,
    config: JobConfig | None = None,
) -> Job:
    """Start the job of this process. No random generator is seeded: an arm's process was seeded
    before its script's first line.

    The arguments hold where the job was not configured, as in a script started by hand: `seed` is
    the one it took; `log_every`, how many steps' losses are fetched together from a GPU; `shapes`,
    how many shapes the steps have, each a graph of its own and no recompilation. `config` takes the
    place of the environment. Raises InputError where the job was started before or its
    configuration is invalid.
    """
    global _started  # noqa: PLW0603 - a process has one job
    if _started is not None:
        raise InputError(
            "job.start() was called after the job had started; call it first, and once"
        )
    config = config or read_config(os.environ)
    config = replace(
        config,
        seed=seed if config.alone and seed is not None else config.seed,
        batch_size=batch_size if config.batch_size is None else config.batch_size,
        learning_rate=learning_rate if config.learning_rate is None else config.learning_rate,
        precision=precision if config.precision is None else config.precision,
    )
    _started = Job(config, log_every=log_every, shapes=shapes)
    _finish_at_exit(_started)
    return _started


def current(**otherwise: Any) -> Job:
    """The job of this process, started if it was not, with the arguments of `start`."""
    return start(**otherwise) if _started is None else _started


def _of_current(method: Callable[Concatenate[Job, _P], _R]) -> Callable[_P, _R]:
    @functools.wraps(method)
    def function(*arguments: _P.args, **named: _P.kwargs) -> _R:
        return method(current(), *arguments, **named)

    signature = inspect.signature(method)
    without_self = list(signature.parameters.values())[1:]
    vars(function)["__signature__"] = signature.replace(parameters=without_self)
    function.__module__, function.__qualname__ = __name__, method.__name__
    return function


compile = _of_current(Job.compile)
distributed = _of_current(Job.distributed)
steps = _of_current(Job.steps)
step = _of_current(Job.step)
begin_step = _of_current(Job.begin_step)
end_step = _of_current(Job.end_step)
loss = _of_current(Job.loss)
checkpoint = _of_current(Job.checkpoint)
resume = _of_current(Job.resume)
settings = _of_current(Job.settings)
examples = _of_current(Job.examples)
trained_on = _of_current(Job.trained_on)
positions = _of_current(Job.positions)
metrics = _of_current(Job.metrics)
note = _of_current(Job.note)
save = _of_current(Job.save)
finish = _of_current(Job.finish)


def _finish_at_exit(job: Job) -> None:
    """Have the job finished when the script ends, unless it fails."""
    failed = False
    show = sys.excepthook

    def noting(*error: Any) -> None:
        nonlocal failed
        failed = True
        job.fail()
        if isinstance(error[1], CompilerError):  # the pages of its cause help nobody
            print(f"CompilerError: {error[1]}", file=sys.stderr, flush=True)
        else:
            show(*error)

    def finishing() -> None:
        profile = sys.modules.get("compilegate.job.profiling.session")
        if failed or (profile is not None and profile.is_over()):
            return  # a profile is done: there is no model to judge
        try:
            job.finish()
        except CompilegateError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - whatever it is, the script must not end as if all was well
            traceback.print_exc()
        else:
            return
        if not job.config.alone:
            # Nothing else gives a process a status at this point.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    sys.excepthook = noting
    atexit.register(finishing)
