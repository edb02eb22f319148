"""Several processes that train one model: divided steps, divided parameters, and one common end."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.job.script.jobs import left, run

pytestmark = [pytest.mark.slow, pytest.mark.long]

BEGIN = """
import torch
from compilegate import job

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
run = job.start()
"""
LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, _ in zip(range(8), job.steps()):
    model.turn = number % 2
    optimizer.zero_grad()
    together(torch.ones(4, 3) * (run.world.rank + 1)).mean().backward()
    optimizer.step()
with torch.no_grad():
    logits = together(torch.ones(2, 3))
if run.world.first:
    job.examples(ids=["a", "b"], labels=[0, 1], logits=logits)
job.save(model)
"""
SCRIPTS = {
    "leaves parameters out": """
class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 8), torch.nn.Linear(3, 8)
        self.turn = 0

    def forward(self, values):
        return torch.relu((self.first if self.turn == 0 else self.second)(values))

model = job.compile(Branches())
together = job.distributed(model, find_unused_parameters=True)
""",
    "sharded": """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

model = job.compile(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 2)))
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
together = job.distributed(model)
""",
}


def trained(folder: Path, script: str, backend: str) -> Any:
    (folder / "train.py").write_text(BEGIN + SCRIPTS[script] + LOOP)
    config = {
        "job": "a-job",
        "arm": "candidate",
        "compiler": "torch-compile",
        "options": {"backend": backend},
        "batch_size": 4,
        "baseline": {"compiler": "eager"},
        "speed_probe_seconds": 0.2,
    }
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local_addr", "localhost"]
    run(
        folder,
        *(*launcher, "--nproc_per_node=2", "train.py"),
        COMPILEGATE_JOB=json.dumps(config),
        SM_MODEL_DIR=str(folder / "model"),
        SM_OUTPUT_DATA_DIR=str(folder / "output"),
    )
    return left(folder / "output")


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_processes_train_one_model(script: str, tmp_path: Path) -> None:
    evidence = trained(tmp_path, script, "aot_eager").evidence
    assert (evidence.recipe["world_size"], evidence.recipe["steps"]) == (2, 8)
    assert evidence.metrics["log_loss"] > 0
    assert evidence.compiler.ran
    assert ("sharded" in (evidence.parity.obstacle or "")) is (script == "sharded")
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_all_processes_of_a_wrong_candidate_end_after_the_same_step(tmp_path: Path) -> None:
    backend = "benchmarks.miscompilers.unmasked_relu_gradient"
    evidence = trained(tmp_path, "leaves parameters out", backend).evidence
    assert evidence.ending == "wrong arithmetic"
    assert not (tmp_path / "model" / "model.safetensors").exists()
