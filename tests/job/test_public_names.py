"""`compilegate.job`, as a training script imports it: complete, and cheap until a name is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import compilegate.job
from compilegate.job.compilers import declarations
from tests.environments import find_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "compilegate" / "job"
NEEDS_NO_NUMPY = (
    *("contract", "errors", "files", "compilers", "machine.world"),
    "launch.script_process",  # which imports nothing before a script does
)
"""What starts a job, in an image where nothing may be installed yet."""


def run(python: str, program: str) -> str:
    done = subprocess.run(
        [python, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there_and_no_other() -> None:
    names = compilegate.job.__all__
    assert "write_evidence" in names
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(compilegate.job, name) is not None, name
    with pytest.raises(AttributeError, match="has no attribute 'walk'"):
        _ = compilegate.job.walk


def test_importing_it_imports_neither_torch_nor_numpy() -> None:
    program = "import compilegate.job, json, sys; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(sys.executable, program))
    assert {"torch", "numpy", "transformers"}.isdisjoint(loaded)
    assert [name for name in loaded if name.startswith("compilegate.")] == ["compilegate.job"]


def test_writing_evidence_imports_no_torch() -> None:
    program = (
        "import sys; from compilegate.job import write_evidence; print('torch' in sys.modules)"
    )
    assert run(sys.executable, program) == "False\n"


def test_python_3_8_reads_every_file_and_loads_what_starts_a_job() -> None:
    python = find_python("3.8")
    files = [str(path) for path in PACKAGE.rglob("*.py")]
    assert len(files) > 30
    program = f"for path in {files!r}: compile(open(path).read(), path, 'exec')"
    run(python, program)
    modules = ", ".join(f"compilegate.job.{name}" for name in NEEDS_NO_NUMPY)
    program = (
        f"import {modules}; from compilegate.job import InputError; "
        "print(len(compilegate.job.compilers.declarations()))"
    )
    assert int(run(python, program)) == len(declarations())
