"""Where the doctor's facts come from. nvidia-smi, compilers and their failures are programs here
that print what the real ones print; what looks at them is the real thing."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from compilegate.job.doctor.program import ask, compilers_here, driver_here
from compilegate.job.machine.programs import run

pytestmark = pytest.mark.slow

VALUES = {
    "name": "NVIDIA A10G",
    "driver_version": "550.127.05",
    "memory.total": "23028",
    "compute_cap": "8.6",
}
"""What a driver answers; an old one does not know the last field."""


def program(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def nvidia_smi(folder: Path, values: dict[str, str]) -> dict[str, str]:
    code = f"""
import sys
values, fields = {values!r}, sys.argv[1].partition("=")[2].split(",")
for field in fields:
    if field not in values:
        print(f'Field "{{field}}" is not a valid field to query.\\n')
        sys.exit(2)
print(", ".join(values[field] for field in fields))
"""
    program(folder, "nvidia-smi", code)
    return {"PATH": str(folder)}


def test_a_gpu_is_read_though_the_driver_lacks_some_of_the_fields(tmp_path: Path) -> None:
    found = driver_here(nvidia_smi(tmp_path, VALUES))
    assert (found["driver"], found["driver_error"]) == ("550.127.05", None)
    assert found["gpus"] == ("NVIDIA A10G, compute capability 8.6, 23028 MiB",)
    del VALUES["compute_cap"]
    found = driver_here(nvidia_smi(tmp_path, VALUES))
    assert found["gpus"] == ("NVIDIA A10G, compute capability unknown, 23028 MiB",)


def test_a_driver_that_does_not_answer_is_quoted_and_none_is_no_error(tmp_path: Path) -> None:
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        found = driver_here({"PATH": str(tmp_path)})
        assert (found["driver"], found["driver_error"], found["gpus"]) == (None, None, ())
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    program(tmp_path, "nvidia-smi", f"import sys; print({message!r}); sys.exit(9)")
    found = driver_here({"PATH": str(tmp_path), "SM_NUM_GPUS": "4"})
    assert found["driver_error"] == f"nvidia-smi says: {message}"
    assert (found["gpus"], found["gpus_declared"]) == ((), 4)


def test_compilers_are_those_that_torch_would_take(tmp_path: Path) -> None:
    assert compilers_here({"PATH": str(tmp_path)}) == {"cxx": None, "cc": None}
    mine = str(program(tmp_path, "my++", ""))
    assert compilers_here({"CXX": mine, "CC": "my++", "PATH": str(tmp_path)}) == {
        "cxx": mine,
        "cc": mine,
    }


@pytest.mark.parametrize(
    ("command", "seconds", "error"),
    [
        # Nor is its child waited for, which holds its output open.
        (["/bin/sh", "-c", "sleep 120; true"], 0.2, "it did not end within 0"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], 60, "killed by SIGSEGV"),
        (["no-such-program-anywhere"], 1, "it could not be started"),
        ([sys.executable, "-c", "1 / 0"], 60, "ZeroDivisionError"),
    ],
)
def test_what_hangs_or_dies_is_a_sentence(command: list[str], seconds: float, error: str) -> None:
    assert (run(command, seconds).error or "").startswith(error)


def test_a_trial_is_eager_s_gradients_and_of_what_is_no_compiler_an_error() -> None:
    assert "nowhere" in ask("trial", "nowhere", "cpu")["error"]
    assert ask("trial", "torch-compile", "cpu", "aot_eager") == {}
