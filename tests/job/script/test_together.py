"""Several processes that train one model, some of whose parameters a step leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, torch
from compilegate import job

torch.distributed.init_process_group("gloo")

class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        self.turn = 0

    def forward(self, values):
        return (self.first if self.turn == 0 else self.second)(values)

run = job.start(batch_size=4)
model = job.compile(Branches())
together = job.distributed(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, _ in zip(range(6), job.steps()):
    model.turn = number % 2
    optimizer.zero_grad()
    together(torch.ones(4, 3) * (run.world.rank + 1)).square().mean().backward()
    optimizer.step()
if run.world.first:
    with torch.no_grad():
        job.examples(ids=["a"], labels=[0], logits=model(torch.ones(1, 3)))
job.save(model)
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_model_of_which_steps_leave_parts_out_trains_in_two_processes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local_addr", "localhost"]
    subprocess.run(
        [sys.executable, *launcher, "--nproc_per_node", "2", "train.py"],
        cwd=tmp_path,
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME")},
            "COMPILEGATE_COMPILER": "torch-compile:aot_eager",
            "OMP_NUM_THREADS": "1",
        },
        check=True,
    )
    found = read_evidence(tmp_path / "compilegate-job" / "evidence")
    assert (found.evidence.recipe["world_size"], found.evidence.recipe["steps"]) == (2, 6)
    assert found.evidence.compiler is not None
    assert found.evidence.compiler.ran
    assert found.evidence.compiler.proof["backend"] == "aot_eager"
