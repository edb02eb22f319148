"""The evidence says how torch was set to compute: TF32, cuDNN's choices, determinism."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

Case = tuple[str, tuple[tuple[str, str], ...]]

ALL_CASES = """
import json, os, sys, torch
from compilegate.job.machine.environment import arithmetic_settings
for script, variables in json.load(sys.stdin):
    sys.stdout.flush()
    if os.fork() == 0:
        exec(script)
        print(json.dumps(arithmetic_settings({**os.environ, **variables})), flush=True)
        os._exit(0)
    os.wait()
"""


def case(script: str, **variables: str) -> Case:
    return script, tuple(variables.items())


CASES = {
    case(""): {},
    case("torch.backends.cuda.matmul.allow_tf32 = True"): {"float32_matmul_gpu": "tf32"},
    case("torch.backends.cuda.matmul.fp32_precision = 'tf32'"): {"float32_matmul_gpu": "tf32"},
    case("torch.backends.cudnn.allow_tf32 = False"): {"float32_convolution_gpu": "ieee"},
    case("torch.backends.cudnn.conv.fp32_precision = 'ieee'"): {"float32_convolution_gpu": "ieee"},
    case("torch.set_float32_matmul_precision('medium')"): {
        "float32_matmul_gpu": "tf32",
        "float32_matmul_cpu": "bf16",
    },
    # The old names and the new ones together: torch itself raises for who reads its old names then.
    case(
        "torch.set_float32_matmul_precision('high')\n"
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'"
    ): {"float32_matmul_cpu": "tf32"},
    case("torch.backends.cudnn.benchmark = True"): {"cudnn_benchmark": True},
    case("torch.backends.cudnn.deterministic = True"): {"cudnn_deterministic": True},
    case("torch.use_deterministic_algorithms(True)"): {"deterministic_algorithms": True},
    case("torch.backends.cuda.matmul.allow_tf32 = True", NVIDIA_TF32_OVERRIDE="0"): {
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


def test_what_a_script_sets_is_seen_by_either_of_torchs_names() -> None:
    """Each case in a process of its own, since the settings are a process's."""
    found = subprocess.run(
        [sys.executable, "-c", ALL_CASES],
        input=json.dumps([[script, dict(variables)] for script, variables in CASES]),
        capture_output=True,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert [{name: each[name] for name in USUAL} for each in told] == [
        {**USUAL, **different} for different in CASES.values()
    ]
    assert all(set(each) - set(USUAL) == {"cuda", "cudnn"} for each in told)
