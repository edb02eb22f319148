"""The shipped proof for GPUs, on a CPU: its script in one process and in two, and its archive."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.command import PROJECT, compilegate

pytestmark = [pytest.mark.slow, pytest.mark.long]


def shortened(folder: Path) -> Path:
    """The shipped file with fewer and smaller steps, two processes, and one seed."""
    shutil.copytree(PROJECT / "workloads" / "gpu-proof", folder / "gpu-proof")
    text = (PROJECT / "workloads" / "gpu-proof.toml").read_text(encoding="utf-8")
    for before, after in (
        (r"epochs = \d+", "epochs = 3"),
        (r"width = \d+", "width = 16"),
        (r"processes = 4", "processes = 2"),
        (r"batch_size = 16", "batch_size = 32"),
        # Compilers have tests of their own: here the launcher and the script matter.
        (r'(\[arms\.all-gpus\]\n)compiler = "inductor"', r'\1compiler = "eager"'),
        (r"seeds = \[1, 2\]", "seeds = [1]"),
    ):
        text, count = re.subn(before, after, text)
        assert count == 1, before
    path = folder / "gpu-proof.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_two_processes_train_as_one_and_the_execution_is_packed(tmp_path: Path) -> None:
    done = compilegate(
        *("run", shortened(tmp_path), "--arms", "baseline,all-gpus"),
        *("--image", "*=here"),
        cwd=tmp_path,
    )
    assert "report:" in done.stdout, done.stdout + done.stderr
    listed = json.loads(compilegate("executions", "--json", cwd=tmp_path).stdout)
    identity = listed[0]["execution"]
    packed = compilegate("executions", identity, "--output", "proof.zip", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    with zipfile.ZipFile(tmp_path / "proof.zip") as archive:
        names = {name.removeprefix(f"{identity}/") for name in archive.namelist()}
        jobs = {"Train-baseline-1", "Train-all-gpus-1"}
        wanted = {f"jobs/{job}/evidence/evidence.json" for job in jobs}
        wanted |= {f"jobs/{job}/log.txt" for job in jobs}
        assert wanted <= names, done.stdout + done.stderr
        assert {"doctor.json", "doctor.txt", "execution.json", "report.html"} <= names
        assert not any("safetensors" in name or "model" in name for name in names)
        one, two = (
            json.loads(archive.read(f"{identity}/jobs/{job}/evidence/evidence.json"))
            for job in sorted(jobs, reverse=True)
        )
    assert one["failure"] is None
    assert two["failure"] is None
    assert one["recipe"]["steps"] == two["recipe"]["steps"]
    assert one["checkup"]["processors"] == two["checkup"]["processors"]
    assert two["checkup"]["load"] >= 0
