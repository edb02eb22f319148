"""What evidence says of the machine: its instance, how torch was set to compute, memory, random
numbers, 16-bit training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from compilegate.job.errors import ArmError
from compilegate.job.machine.accelerators import Machine
from compilegate.job.machine.environment import describe_machine
from compilegate.job.machine.numerics import check_precision
from compilegate.job.optimizers import loss_scaler
from compilegate.local.requests import ACCOUNT
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

PROJECT = Path(__file__).parents[2]


def printed(program: str, *arguments: str, given: str = "") -> str:
    """What a Python process of its own prints."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(
        command, cwd=PROJECT, input=given, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("arn", "instance"),
    [
        ("arn:aws:sagemaker:us-west-2:123456789012:training-job/one", "ml.g5.xlarge"),
        *((arn, None) for arn in (f"{ACCOUNT}:training-job/one", "one", "")),
    ],
)
def test_only_a_job_on_sagemaker_says_which_instance_it_ran_on(arn: str, instance: object) -> None:
    """Or the price of that instance would be put on the seconds of this machine."""
    environment = {"SM_CURRENT_INSTANCE_TYPE": "ml.g5.xlarge", "TRAINING_JOB_ARN": arn}
    found = describe_machine(
        Machine(None), None, {**environment, "COMPILEGATE_IMAGE": "training:1"}
    )
    assert (found["instance_type"], found["image"]) == (instance, "training:1")
    assert describe_machine(Machine(None), None, environment)["image"] is None


ALL_SETTINGS = """
import json, os, sys, torch
from compilegate.job.machine.environment import arithmetic_settings
for script in json.load(sys.stdin):
    sys.stdout.flush()
    if os.fork() == 0:
        variables = {}
        exec(script)
        print(json.dumps(arithmetic_settings(variables)), flush=True)
        os._exit(0)
    os.wait()
"""
SETTINGS: dict[str, dict[str, object]] = {
    "": {},
    "torch.backends.cuda.matmul.allow_tf32 = True": {"float32_matmul_gpu": "tf32"},
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'": {"float32_matmul_gpu": "tf32"},
    "torch.backends.cudnn.allow_tf32 = False": {"float32_convolution_gpu": "ieee"},
    "torch.backends.cudnn.conv.fp32_precision = 'ieee'": {"float32_convolution_gpu": "ieee"},
    "torch.set_float32_matmul_precision('medium')": {
        "float32_matmul_gpu": "tf32",
        "float32_matmul_cpu": "bf16",
    },
    # The old names and the new ones together: torch itself raises for who reads its old names then.
    "torch.set_float32_matmul_precision('high')\n"
    "torch.backends.cuda.matmul.fp32_precision = 'ieee'": {"float32_matmul_cpu": "tf32"},
    "torch.backends.cudnn.benchmark = True": {"cudnn_benchmark": True},
    "torch.backends.cudnn.deterministic = True": {"cudnn_deterministic": True},
    "torch.use_deterministic_algorithms(True)": {"deterministic_algorithms": True},
    "torch.backends.cuda.matmul.allow_tf32 = True\nvariables['NVIDIA_TF32_OVERRIDE'] = '0'": {
        "float32_convolution_gpu": "ieee"
    },
}
USUAL = {
    "float32_matmul_gpu": "ieee",
    "float32_convolution_gpu": "tf32",
    "float32_matmul_cpu": "ieee",
    "cudnn_benchmark": False,
    "cudnn_deterministic": False,
    "deterministic_algorithms": False,
}


@pytest.mark.slow
def test_what_a_script_sets_is_seen_by_either_of_torchs_names() -> None:
    """Each case in a process of its own, since the settings are a process's."""
    lines = printed(ALL_SETTINGS, given=json.dumps(list(SETTINGS))).splitlines()
    found = [json.loads(line) for line in lines]
    assert [{name: each[name] for name in USUAL} for each in found] == [
        {**USUAL, **different} for different in SETTINGS.values()
    ]
    assert all(set(each) - set(USUAL) == {"cuda", "cudnn"} for each in found)


STEPS = """
import resource, sys
from compilegate.job.machine.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step = [bytearray(40 << 20)]  # zeroed: each of its 10,240 pages is touched
        del step
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
assert keep_freed_memory() == sys.platform.startswith("linux")
faults()
print(given_back, faults())
"""


@pytest.mark.slow
def test_what_was_freed_is_not_faulted_in_again() -> None:
    given_back, kept = map(int, printed(STEPS).split())
    assert kept < 100
    assert kept < given_back / 10


PEAK = """
import subprocess, sys
from compilegate.job.machine.memory import process_peak

held = bytearray(b"1") * (600 << 20)
ask = "from compilegate.job.machine.memory import process_peak; print(process_peak())"
child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
print(process_peak(), child.stdout)
"""


@pytest.mark.slow
def test_a_job_reports_its_own_peak_and_not_its_launchers() -> None:
    launcher, job = map(int, printed(PEAK).split())
    assert launcher > 600 << 20
    assert job < 300 << 20


AT_END = """
import atexit, sys
from pathlib import Path
from compilegate.job import start
from compilegate.job.files import remove_at_end

folder = Path(sys.argv[1], "cache")
# As a job that is finished when its script ends.
atexit.register(lambda: print((folder / "kernel.so").is_file()))
folder.mkdir()
(folder / "kernel.so").touch()
for path in (folder, folder.parent / "absent"):
    remove_at_end(str(path))
"""


@pytest.mark.slow
def test_what_a_job_reads_when_its_script_ends_is_removed_after_that(tmp_path: Path) -> None:
    assert printed(AT_END, str(tmp_path)) == "True\n"
    assert not list(tmp_path.iterdir())


CPU = torch.device("cpu")


def test_only_fp16_needs_a_gpu_and_scales_its_loss() -> None:
    with pytest.raises(ArmError, match="fp16"):
        check_precision("fp16", "cpu")
    for precision in ("fp32", "bf16"):
        check_precision(precision, "cpu")
        assert loss_scaler(precision, CPU) is None


def model_and_update(precision: str) -> tuple[torch.nn.Linear, WeightUpdate]:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    recipe = Hyperparameters(precision=precision, learning_rate=0.1)
    return model, WeightUpdate(model, recipe, RunLength(steps=3, warmup=0, steps_per_epoch=3))


@pytest.mark.slow
def test_a_scaled_update_is_the_plain_one() -> None:
    weights = []
    for precision in ("fp32", "fp16"):
        model, update = model_and_update(precision)
        for step in range(3):
            update.backward(model(torch.tensor([[1.0, 2.0, 3.0]])).square().sum())
            update.apply(step)
        weights.append(model.weight.detach())
    torch.testing.assert_close(*weights)


@pytest.mark.slow
def test_an_update_whose_gradients_overflow_is_left_out_and_the_next_is_scaled_less() -> None:
    """The scale is part of what a checkpoint keeps."""
    model, update = model_and_update("fp16")
    before, scale = model.weight.detach().clone(), update.tensors()["scaler.scale"]
    update.backward(model(torch.full((1, 3), 1e38)).sum())
    update.apply(0)
    torch.testing.assert_close(model.weight, before)
    assert update.tensors()["scaler.scale"] == scale / 2
    _, resumed = model_and_update("fp16")
    resumed.restore(update.tensors())
    assert resumed.tensors()["scaler.scale"] == scale / 2
