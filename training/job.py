"""One training job in this process: train, save, evaluate the saved model, write the evidence.

The parity probe runs after everything that is measured, so that it affects no other figure.

`training/train.py` runs this module as a child process; `compilegate.job.launch.supervisor`
says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

import torch
import transformers

from compilegate.job import (
    REPORTED_FAILURE,
    ArmError,
    CheckpointRecord,
    ColdFigures,
    CompileCache,
    CompileCacheRecord,
    Compiler,
    Evidence,
    Examples,
    FailureNote,
    InputError,
    ParityErrors,
    ParityRecord,
    Resumption,
    Scalar,
    SpeedRecord,
    Weights,
    World,
    check_precision,
    compile_seconds,
    describe_machine,
    file_digest,
    joined,
    keep_freed_memory,
    keep_weights,
    key_here,
    leave_note,
    load_compiler,
    lost_peer,
    one_sentence,
    peak_memory_bytes,
    probe_parity,
    recompilations,
    record_failure,
    report_failure,
    samples_per_second,
    seconds_since_start,
    settings_digest,
    steady_starts,
    steady_steps,
    world_of,
    write_evidence,
)
from training.arguments import JobArguments, read_arguments, unfinished
from training.checkpoints import Checkpoints, Identity
from training.data.batches import BatchSource, batches_of_run, order_digest
from training.data.prepared import PreparedData, read_prepared
from training.evaluation import evaluate, metrics
from training.loop import TrainingRun, train
from training.model import WEIGHTS, build_model, load_model, save_model
from training.schedule import RunLength, run_length
from training.update import WeightUpdate

PROGRAM = Path(__file__).resolve().parent


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    transformers.utils.logging.disable_progress_bar()
    try:
        run(read_arguments(arguments, os.environ))
    except (InputError, ArmError) as error:
        return _fail(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, SageMaker must show the reason
        traceback.print_exc()
        return _fail(error)
    return 0


def _fail(error: Exception) -> int:
    note = FailureNote(
        one_sentence(error), by_input=isinstance(error, InputError), lost_peer=lost_peer(error)
    )
    if not leave_note(note, os.environ):
        report_failure(note.reason, os.environ)
    return REPORTED_FAILURE


@dataclass(frozen=True)
class Setting:
    """What a job works with."""

    job: JobArguments
    data: PreparedData
    length: RunLength
    device: torch.device
    """Where the model is built, and evaluated in the end."""
    accelerator: str
    """The machine's device: cuda or cpu."""
    launched: World
    """The processes that torchrun started."""
    world: World
    """The processes that train together."""


def run(job: JobArguments) -> None:
    """Do the job and write its evidence.

    Raises InputError for a request or data that cannot be used, and whatever the training
    raises, unless the job is to record it.
    """
    data = read_prepared(job.folders.prepared)
    launched = world = world_of(os.environ)
    device = _device(world)
    compiler: Optional[Compiler] = None
    try:
        compiler = load_compiler(job.compiler, job.compiler_settings)
        world = compiler.world(launched)
        setting = Setting(
            job=job,
            data=data,
            length=run_length(job.hyperparameters, data.manifest.counts["train"], world.size),
            # A compiler that traces whole steps keeps the accelerator for itself.
            device=torch.device("cpu") if compiler.compiles_whole_steps else device,
            accelerator=device.type,
            launched=launched,
            world=world,
        )
        trained = _train(setting, compiler)
        if not world.first:
            return
        save_model(trained.model, data, job.folders.model)
        examples = _evaluate_saved(setting)
    except InputError:
        raise
    except Exception as error:
        # With torchrun, the supervisor records what the first failed process noted.
        # torch_xla's processes have no supervisor; a failure of the arm hits all of them.
        together = world.alone or (launched.alone and isinstance(error, ArmError))
        if job.on_failure != "record" or not together:
            raise
        if not world.first:
            return
        if not isinstance(error, ArmError):
            traceback.print_exc()
        evidence = unfinished(
            job,
            one_sentence(error),
            compiler=None if compiler is None else compiler.record(0.0, 0),
            environment=describe_machine(device),
        )
        record_failure(job.folders.output_data, evidence)
        return
    evidence = _evidence(setting, compiler, trained, examples)
    parity, errors = _compare_arithmetic(setting, compiler, trained)
    evidence = dataclasses.replace(
        evidence,
        parity=parity,
        compile_cache=_keep_compiled(trained, compiler, evidence),
    )
    write_evidence(job.folders.output_data, evidence, trained.run.steps, examples, errors)
    if trained.checkpoints is not None:
        trained.checkpoints.finish()
    _print_metrics(evidence)


@dataclass(frozen=True)
class _Trained:
    """A model in memory after its training."""

    model: Any
    initial: Optional[Weights]
    """The initial weights, kept if the parity probe needs them."""
    run: TrainingRun
    cache: Optional[CompileCache]
    checkpoints: Optional[Checkpoints]


def _device(world: World) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if world.alone:
        return torch.device("cuda")
    if world.local_rank >= torch.cuda.device_count():
        raise InputError(
            f"--processes starts process {world.local_rank + 1} on a machine with "
            f"{torch.cuda.device_count()} GPUs; expected as many as it has"
        )
    torch.cuda.set_device(world.local_rank)
    return torch.device("cuda", world.local_rank)


def _train(setting: Setting, compiler: Compiler) -> _Trained:
    job, data = setting.job, setting.data
    if setting.device.type == "cpu":
        keep_freed_memory()
    check_precision(job.hyperparameters.precision, setting.accelerator)
    transformers.set_seed(job.seed)
    model = build_model(job.hyperparameters, data.manifest).to(setting.device)
    probed = job.parity_steps > 0 and job.compiler != "eager"
    initial = keep_weights(model) if probed else None
    cache = _loaded_cache(setting, compiler, model)
    checkpoints = _checkpoints(setting)
    with _distrusting(cache), joined(setting.launched, setting.device):
        run = train(
            model,
            compiler=compiler,
            source=BatchSource(data.train, setting.device),
            hyperparameters=job.hyperparameters,
            length=setting.length,
            seed=job.seed,
            checkpoints=checkpoints,
            world=setting.world,
        )
    return _Trained(model, initial, run, cache, checkpoints)


def _checkpoints(setting: Setting) -> Optional[Checkpoints]:
    """The checkpoints of this job; None where it keeps none."""
    job = setting.job
    if job.folders.checkpoints is None:
        return None
    identity = Identity(
        job=job.name,
        config=settings_digest({**job.declared(), "arm": job.arm, "seed": job.seed}),
        data=setting.data.digest,
        torch=str(torch.__version__),
    )
    return Checkpoints(
        job.folders.checkpoints,
        identity,
        seconds_between=job.checkpoint_seconds,
        job_started=time.time() - seconds_since_start(os.environ),
    )


def _loaded_cache(setting: Setting, compiler: Compiler, model: Any) -> Optional[CompileCache]:
    """The declared compile cache, loaded; None without a declaration or compiler support."""
    job = setting.job
    if job.folders.compile_cache is None or not job.compile_cache_megabytes:
        return None
    folder = compiler.cache_folder()
    if folder is None:
        return None
    graph = compiled_graph(job, model, setting.data.manifest.sequence_length)
    key = key_here(graph, device=setting.device, code=[PROGRAM])
    most_bytes = job.compile_cache_megabytes * 1_000_000
    cache = CompileCache(job.folders.compile_cache, most_bytes, key, folder)
    cache.load()
    return cache


def compiled_graph(job: JobArguments, model: Any, sequence_length: int) -> Dict[str, Scalar]:
    """What decides the compiled graph, for the compile cache's key."""
    return {
        "compiler": job.compiler,
        **job.compiler_settings,
        "batch_size": job.hyperparameters.batch_size,
        "sequence_length": sequence_length,
        "precision": job.hyperparameters.precision,
        "model": hashlib.sha256(model.config.to_json_string().encode()).hexdigest(),
    }


@contextlib.contextmanager
def _distrusting(cache: Optional[CompileCache]) -> Iterator[None]:
    """If training fails with code that an earlier job compiled, no later job gets that code."""
    try:
        yield
    except Exception:
        if cache is not None:
            cache.discard_loaded()
        raise


def _keep_compiled(
    trained: _Trained, compiler: Compiler, evidence: Evidence
) -> Optional[CompileCacheRecord]:
    """Leave what was compiled for the next job, now that everything has succeeded."""
    if trained.cache is None or evidence.compiler is None:
        return None
    figures = ColdFigures(
        compile_seconds=evidence.compiler.compile_seconds,
        first_step_seconds=float(trained.run.steps.seconds[0]),
    )
    return trained.cache.keep(compiler.cache_lookups(), figures, evidence.job)


def _evaluate_saved(setting: Setting) -> Examples:
    """Evaluate the files that will be released, not the model in memory."""
    model = load_model(setting.job.folders.model).to(setting.device)
    batch_size = setting.job.hyperparameters.eval_batch_size
    return evaluate(model, setting.data.validation, setting.device, batch_size)


def _compare_arithmetic(
    setting: Setting, compiler: Compiler, trained: _Trained
) -> Tuple[Optional[ParityRecord], Optional[ParityErrors]]:
    """Run the parity probe, if the job compiled and the probe is on."""
    if trained.initial is None:
        return None, None
    job, length = setting.job, setting.length
    source = BatchSource(setting.data.train, setting.device)
    return probe_parity(
        trained.model,
        trained.run.forward,
        compiler=compiler,
        initial=trained.initial,
        batches=batches_of_run(source, job.hyperparameters, length, job.seed),
        begin_updates=lambda: (
            WeightUpdate(trained.model, job.hyperparameters, length, scaled=False).apply
        ),
        precision=job.hyperparameters.precision,
        seed=job.seed,
        steps=job.parity_steps,
    )


def _evidence(
    setting: Setting, compiler: Compiler, trained: _Trained, examples: Examples
) -> Evidence:
    job, run = setting.job, trained.run
    first, resumed = _warm_ups(run)
    seconds = run.steps.seconds
    steady = seconds[steady_steps(len(seconds), first, resumed)]
    loading = 0.0 if trained.cache is None else trained.cache.load_seconds
    return Evidence(
        job=job.name,
        arm=job.arm,
        seed=job.seed,
        recipe={**job.declared_recipe(), **_performed(setting)},
        compiler=compiler.record(
            compile_seconds(seconds[:first], steady) + loading,
            recompilations(run.graphs),
        ),
        speed=SpeedRecord(
            samples_per_second=samples_per_second(steady, _global_batch_size(setting)),
            steady_from=first,
            train_seconds=run.seconds,
            total_seconds=_total_seconds(trained),
        ),
        metrics=metrics(examples),
        peak_memory_bytes=peak_memory_bytes(setting.device),
        environment=describe_machine(setting.device),
        digests={
            "data": setting.data.digest,
            "config": settings_digest(job.declared()),
            "model": file_digest(job.folders.model / WEIGHTS),
        },
        checkpoints=_checkpoint_record(trained.checkpoints, resumed),
    )


def _warm_ups(run: TrainingRun) -> Tuple[int, Tuple[Resumption, ...]]:
    """The first steady step of the run and of each resumption."""
    first, *starts = steady_starts(run.graphs)
    seconds = run.steps.seconds
    resumed = tuple(
        Resumption(each.step, start, each.lost_seconds) for each, start in zip(run.returns, starts)
    )
    steady = seconds[steady_steps(len(seconds), first, resumed)]
    return first, tuple(
        dataclasses.replace(
            each,
            lost_seconds=each.lost_seconds
            + compile_seconds(seconds[each.step : each.steady_from], steady),
        )
        for each in resumed
    )


def _total_seconds(trained: _Trained) -> float:
    if trained.checkpoints is not None and trained.run.returns:
        return trained.checkpoints.total_seconds()
    return seconds_since_start(os.environ)


def _checkpoint_record(
    checkpoints: Optional[Checkpoints], resumed: Tuple[Resumption, ...]
) -> Optional[CheckpointRecord]:
    if checkpoints is None:
        return None
    return CheckpointRecord(
        written=checkpoints.written,
        seconds=checkpoints.seconds,
        ignored=checkpoints.ignored,
        resumed=resumed,
    )


def _performed(setting: Setting) -> Dict[str, Scalar]:
    """What the hyperparameters led to with these data on this machine."""
    manifest, length, job = setting.data.manifest, setting.length, setting.job
    return {
        "world_size": length.world_size,
        "global_batch_size": _global_batch_size(setting),
        "steps": length.steps,
        "warmup_steps": length.warmup,
        "device": setting.accelerator,
        "sequence_length": manifest.sequence_length,
        "vocabulary": manifest.vocabulary_size,
        "data_order": order_digest(
            manifest.counts["train"], job.seed, _global_batch_size(setting), length.steps
        ),
    }


def _global_batch_size(setting: Setting) -> int:
    """How many documents all processes together take in a step."""
    return setting.job.hyperparameters.batch_size * setting.length.world_size


def _print_metrics(evidence: Evidence) -> None:
    for name, value in evidence.metrics.items():
        print(f"validation:{name}={value:.6f}")
    if evidence.speed is not None:
        print(f"train:steady_samples_per_second={evidence.speed.samples_per_second:.2f}")
    if evidence.compiler is not None:
        print(f"train:compile_seconds={evidence.compiler.compile_seconds:.3f}", flush=True)
    if evidence.parity is not None:
        found = evidence.parity.obstacle or f"{evidence.parity.steps} steps compared"
        print(f"parity probe, {evidence.parity.seconds:.2f} s: {found}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
