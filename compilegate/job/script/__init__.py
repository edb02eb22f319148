"""A training script's job, as the script calls it: `from compilegate import job`.

The functions act on the one job of the process, which the first of them starts.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    Mapping,
    Optional,
)

from compilegate.job.errors import CompilegateError, CompilerError, InputError
from compilegate.job.script.job import Job
from compilegate.job.script.told import Baseline, Told, read_told

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from compilegate.job.evidence import Scalar
    from compilegate.job.script.steps import LoaderSteps

__all__ = [
    "Baseline",
    "Job",
    "Told",
    "begin_step",
    "checkpoint",
    "compile",
    "distributed",
    "end_step",
    "examples",
    "finish",
    "loss",
    "metrics",
    "note",
    "positions",
    "resume",
    "save",
    "settings",
    "start",
    "step",
    "steps",
    "trained_on",
]

_started: Optional[Job] = None


def start(
    *,
    seed: Optional[int] = None,
    batch_size: Optional[int] = None,
    learning_rate: Optional[float] = None,
    precision: Optional[str] = None,
    log_every: Optional[int] = None,
    shapes: int = 1,
    told: Optional[Told] = None,
) -> Job:
    """Start the job of this process. No random generator is seeded or moved: an arm's process was
    seeded before its script's first line, and a script that is started by hand seeds itself.

    The arguments say what holds where the job was not told: in a script that is started by hand.
    `seed` is the one that it took, for the evidence. `log_every` is how many steps' losses are
    fetched together from a GPU; `shapes`, how many shapes the steps have, where texts are padded to
    a few lengths: each is a graph of its own, and no recompilation. `told` takes the place of the
    environment. Raises InputError where the job was started before, or was told nonsense.
    """
    global _started  # noqa: PLW0603 - a process has one job
    if _started is not None:
        raise InputError(
            "job.start() was called after the job had started; call it first, and once"
        )
    told = told or read_told(os.environ)
    told = replace(
        told,
        seed=seed if told.alone and seed is not None else told.seed,
        batch_size=batch_size if told.batch_size is None else told.batch_size,
        learning_rate=learning_rate if told.learning_rate is None else told.learning_rate,
        precision=precision if told.precision is None else told.precision,
    )
    _started = Job(told, log_every=log_every, shapes=shapes)
    _finish_at_exit(_started)
    return _started


def current(**otherwise: Any) -> Job:
    """The job of this process, started if it was not, with the arguments of `start`."""
    return start(**otherwise) if _started is None else _started


def compile(
    function: Any, module: Any = None, *, graph: Optional[Mapping[str, Scalar]] = None
) -> Any:
    """See `Job.compile`."""
    return current().compile(function, module, graph=graph)


def distributed(model: Any, **options: Any) -> Any:
    """See `Job.distributed`."""
    return current().distributed(model, **options)


def steps(
    loader: Optional[Iterable[Any]] = None, *, accumulate: int = 1, ragged: str = "drop"
) -> LoaderSteps:
    """See `Job.steps`."""
    return current().steps(loader, accumulate=accumulate, ragged=ragged)


def step(
    take: Optional[Callable[[], Any]] = None, update: Optional[Callable[[], Any]] = None
) -> Any:
    """See `Job.step`."""
    return current().step(take, update)


def begin_step() -> None:
    """See `Job.begin_step`."""
    current().begin_step()


def end_step() -> None:
    """See `Job.end_step`."""
    current().end_step()


def loss(value: Any) -> None:
    """See `Job.loss`."""
    current().loss(value)


def checkpoint() -> ContextManager[Dict[str, Any]]:
    """See `Job.checkpoint`."""
    return current().checkpoint()


def resume(state: Optional[Mapping[str, Any]] = None, *, ignored: Optional[str] = None) -> None:
    """See `Job.resume`."""
    current().resume(state, ignored=ignored)


def settings(**values: Scalar) -> None:
    """See `Job.settings`."""
    current().settings(**values)


def examples(**columns: Any) -> None:
    """See `Job.examples`."""
    current().examples(**columns)


def trained_on(**columns: Any) -> None:
    """See `Job.trained_on`."""
    current().trained_on(**columns)


def positions(count: int) -> npt.NDArray[np.str_]:
    """See `Job.positions`."""
    return current().positions(count)


def metrics(**values: Any) -> None:
    """See `Job.metrics`."""
    current().metrics(**values)


def note(sentence: str) -> None:
    """See `Job.note`."""
    current().note(sentence)


def save(model: Any) -> None:
    """See `Job.save`."""
    current().save(model)


def finish() -> None:
    """See `Job.finish`."""
    current().finish()


def _is_profiled() -> bool:
    """Whether the script ended because its profile is done: there is no model to judge."""
    session = sys.modules.get("compilegate.job.profiling.session")
    return session is not None and session.is_over()


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
        if failed or _is_profiled():
            return
        try:
            job.finish()
        except CompilegateError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - whatever it is, the script must not end as if all was well
            traceback.print_exc()
        else:
            return
        if not job.told.alone:
            # Nothing else gives a process a status at this point.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    sys.excepthook = noting
    atexit.register(finishing)
