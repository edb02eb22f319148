"""Training on XLA's CPU device, for real, in the environment of containers/xla.

It stands in for AWS's Training Compiler and Neuron, too, neither of which was ever run: torch_xla
2.9 for the images' 1.13, and what it does at its import for what AWS's does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compilegate.catalog.instances import accelerators_of
from compilegate.gate.confounds import find_confounds
from compilegate.gate.cost import judge_memory
from compilegate.gate.settings import ArmDeclaration
from compilegate.job.machine.accelerators import describing
from tests.environments.xla import QUICK_TO_COMPILE
from tests.training.conftest import ROOT, JobResult, StartJob, TrainJob, children

pytestmark = [pytest.mark.slow, pytest.mark.long]

PROGRAMS = Path(__file__).with_name("xla")


@pytest.fixture(scope="module")
def traced(train_job: TrainJob, xla_python: str) -> JobResult:
    """Trained with XLA, without dropout."""
    return train_job(QUICK_TO_COMPILE, python=xla_python, compiler="xla", dropout=0)


@pytest.fixture(scope="module")
def eager(train_job: TrainJob, xla_python: str) -> JobResult:
    """The same recipe in the same environment."""
    return train_job(python=xla_python, compiler="eager", dropout=0)


def test_every_step_is_an_execution_of_one_graph_that_computes_what_eager_does(
    traced: JobResult, eager: JobResult
) -> None:
    record, plain = traced.record, eager.record
    compiler, proof, parity = (
        record.evidence.compiler,
        record.evidence.compiler.proof,
        record.parity,
    )
    steps = len(record.steps.loss)
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    assert (proof["graphs_compiled"], proof["graphs_reused"]) == (1, steps - 1)
    assert (proof["device"], proof["executions"], proof["torch_xla"]) == ("CPU", steps, "2.9.0")
    assert proof["gradients_averaged"] == "one process"
    assert 0 < float(str(proof["xla_compile_seconds"])) < record.steps.seconds[0]
    assert compiler.options == {"step_graphs": 4}
    np.testing.assert_allclose(record.steps.loss, plain.steps.loss, rtol=1e-4)
    np.testing.assert_allclose(record.examples.scores, plain.examples.scores, atol=1e-3)
    assert record.evidence.recipe == plain.evidence.recipe
    assert (record.evidence.parity.obstacle, record.evidence.parity.steps) == (None, 4)
    assert "gradient of bert.embeddings.word_embeddings.weight" in parity.tensors
    assert 0 < parity.compiled.max() < 100 * 2.0**-23


def test_dropout_averaging_and_bfloat16_leave_it_one_graph_and_parity_cannot_tell(
    train_job: TrainJob, xla_python: str
) -> None:
    options = {"averaging": 0.9, "precision": "bf16", "max_steps": 12}
    record = train_job(QUICK_TO_COMPILE, python=xla_python, compiler="xla", **options).record
    assert record.evidence.compiler.graphs == 1
    assert "the model draws random numbers" in record.evidence.parity.obstacle
    assert np.isfinite(record.examples.losses).all()


def test_a_killed_job_resumes_with_the_very_same_dropout(
    start_job: StartJob, train_job: TrainJob, xla_python: str, tmp_path: Path
) -> None:
    options = {"python": xla_python, "compiler": "xla", "max_steps": 24, "parity_steps": 0}
    places = {**QUICK_TO_COMPILE, "COMPILEGATE_CHECKPOINTS": str(tmp_path)}
    whole = train_job(QUICK_TO_COMPILE, **options).record
    process, _ = start_job({**places, "COMPILEGATE_CHECKPOINT_SECONDS": "0"}, **options)
    assert any(line.startswith("checkpoint after step 8") for line in process.stdout)
    for pid in (process.pid, *children(process.pid)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    resumed = train_job(places, **options).record
    assert resumed.evidence.checkpoints.resumed[0].step > 8
    assert np.array_equal(resumed.steps.loss, whole.steps.loss)
    assert resumed.evidence.digests["model"] == whole.evidence.digests["model"]


def test_torch_xlas_own_launcher_finds_what_it_calls(train_job: TrainJob, xla_python: str) -> None:
    program = (str(PROGRAMS / "launch.py"), "training/train.py")
    options = {"compiler": "xla", "max_steps": 4, "parity_steps": 0, "program": program}
    variables = {**QUICK_TO_COMPILE, "PJRT_DEVICE": "CPU"}
    evidence = train_job(variables, python=xla_python, **options).evidence
    assert (evidence.compiler.ran, evidence.recipe["steps"]) == (True, 4)


@pytest.mark.parametrize(
    ("variables", "options", "reason"),
    [
        ({}, {"learning_rate": 1e30}, "the training loss is nan in step "),
        ({"PJRT_DEVICE": "CUDA"}, {}, "torch_xla 2.9.0 opens no XLA device, asked for CUDA"),
        (
            {},
            {"compiler": "training-compiler"},
            "SM_TRAINING_COMPILER_CONFIGURED is not set after torch_xla was imported",
        ),
    ],
)
def test_an_arm_that_xla_cannot_train_is_evidence_against_it(
    train_job: TrainJob,
    xla_python: str,
    variables: dict[str, str],
    options: dict[str, Any],
    reason: str,
) -> None:
    arm = {"compiler": "xla", "on_failure": "record", **options}
    job = train_job({**QUICK_TO_COMPILE, **variables}, python=xla_python, **arm)
    assert reason in str(job.evidence.failure)
    assert not any(job.model.iterdir())


def test_machines_that_torch_xla_does_not_know_of_are_refused(
    train_job: TrainJob, xla_python: str
) -> None:
    machines = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-1"}
    job = train_job(machines, python=xla_python, compiler="xla")
    assert job.status == 1
    assert "the job has 2 machines, and of their processes 1 would train together" in job.reason


def printed(python: str, program: str) -> Any:
    """The JSON that a program beside this file ends with, in the environment of XLA."""
    done = subprocess.run(
        [python, PROGRAMS / program],
        env={**os.environ, **QUICK_TO_COMPILE, "PYTHONPATH": str(ROOT), "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_would_be_compiled_again_and_again_is_refused_with_the_reason(
    xla_python: str,
) -> None:
    found = printed(xla_python, "guard.py")
    alike, varied, allowed, looking = found.values()
    assert (alike["failure"], alike["graphs"], alike["recompilations"]) == (None, 1, [])
    assert alike["losses"][-1] < alike["losses"][0]
    assert len(varied["losses"]) == 4
    assert "once more, and its graphs may be 2" in varied["failure"]
    assert (allowed["failure"], allowed["graphs"]) == (None, 1)  # those of 8 and 7 are known by now
    assert allowed["recompilations"] == ["step 4: a batch of inputs [6, 4], labels [6] is new"]
    assert looking["losses"] == []
    assert "asks the XLA device for a value before it ends" in looking["failure"]


def test_functions_of_any_form_have_eager_s_outputs_and_gradients_from_a_model_on_the_host(
    xla_python: str,
) -> None:
    found = printed(xla_python, "functions.py")
    assert len(found) >= 4
    for form, differences in found.items():
        assert len(differences) >= 6, form
        assert max(differences) < 1e-5, form


@pytest.fixture(scope="module")
def in_the_images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process that finds a torch_xla and a torch_neuronx like AWS's."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "sitecustomize.py").write_text((PROGRAMS / "image.py").read_text())
    (folder / "torch_neuronx").mkdir()
    (folder / "torch_neuronx" / "__init__.py").touch()
    switches = ("sagemaker_training_compiler_enabled", "sagemaker_training_compiler_debug_mode")
    return {
        **QUICK_TO_COMPILE,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "SM_FRAMEWORK_PARAMS": json.dumps(dict.fromkeys(switches, True)),
    }


def on(instance_type: str) -> Mapping[str, str]:
    return {"COMPILEGATE_MACHINE": describing(accelerators_of(instance_type))}


DECLARED = {"dropout": 0, "max_steps": 6, "parity_steps": 0, "evaluate_on": "host"}


def test_training_compiler_proves_itself_and_differs_from_its_baseline_in_the_compiler_alone(
    train_job: TrainJob, xla_python: str, in_the_images: dict[str, str]
) -> None:
    place = {**in_the_images, **on("ml.p3.2xlarge")}
    baseline, candidate = (
        train_job(place, python=xla_python, arm=compiler, compiler=compiler, **DECLARED).evidence
        for compiler in ("eager", "training-compiler")
    )
    arms = [
        ArmDeclaration(compiler=each.arm, batch_size=16, learning_rate=3e-3, precision="fp32")
        for each in (baseline, candidate)
    ]
    confounds = find_confounds([baseline], [candidate], arms, 0.05)
    assert [each.name for each in confounds if not each.intended] == []
    for each in (baseline, candidate):
        assert each.environment["accelerator"] == "V100"
        assert (each.recipe["device"], each.recipe["evaluated_on"]) == ("cuda", "host")
    memory, _ = judge_memory([baseline], [candidate], None)
    assert (memory.baseline_of, memory.candidate_of, memory.obstacle) == (*["process"] * 2, None)
    compiler, proof = candidate.compiler, candidate.compiler.proof
    assert (compiler.name, compiler.ran, compiler.graphs) == ("training-compiler", True, 1)
    assert (proof["SM_TRAINING_COMPILER_CONFIGURED"], proof["debug_mode"]) == ("1", True)
    # Transformers imports Accelerate, which imports torch_xla before the job does.
    assert proof["configured_by"] == "an earlier import"
    assert proof["executions"] == 6


def test_neuron_trains_on_trainium_alone(
    train_job: TrainJob, xla_python: str, in_the_images: dict[str, str]
) -> None:
    def train(machine: Mapping[str, str]) -> JobResult:
        arm = {"arm": "compiled", "compiler": "neuron", **DECLARED}
        return train_job({**in_the_images, **machine}, python=xla_python, **arm)

    evidence = train(on("ml.trn1.32xlarge")).evidence
    found, recipe = evidence.environment, evidence.recipe
    assert (found["accelerator"], found["accelerators"]) == ("Trainium", 16)
    assert (recipe["device"], recipe["evaluated_on"]) == ("neuron", "host")
    refused = train(on("ml.p3.2xlarge")), train({})  # torch_xla itself looks for the device
    assert [job.status for job in refused] == [1, 1]
    assert "not a NeuronCore" in refused[0].reason
    assert re.fullmatch(
        r"torch_xla \S+ opens no XLA device, asked for NEURON \(.*libneuronxla.*\); "
        "take an ml.trn1 instance",
        refused[1].reason,
    )
