"""What the driver says of a machine, and what a description says in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.catalog.instances import accelerators_of, instances
from compilegate.cli.main import main
from compilegate.job import InputError
from compilegate.job.machine.accelerators import describing, read_description, visible_gpus

ROOT = Path(__file__).parents[2]
SMI = """#!/bin/sh
case "$1" in
  *compute_cap*)
    if [ -z "$CAPABILITY" ]; then echo 'Field "compute_cap" is not a valid field'; exit 2; fi ;;
esac
for gpu in "0, GPU-aa11" "1, GPU-bb22"; do
  echo "$gpu, Tesla V100-SXM2-16GB, 16160${CAPABILITY:+, $CAPABILITY}"
done
"""
PROGRAM = (
    "import json, dataclasses; "
    "from compilegate.job.machine.accelerators import this_machine; "
    "found = this_machine().accelerators; "
    "print(json.dumps(found and dataclasses.asdict(found)))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "seen"),
    [
        ({"CAPABILITY": "7.0"}, {"count": 2, "capability": "7.0"}),
        # An old driver knows no capability.
        ({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, {"count": 1, "capability": None}),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_the_driver_names_the_gpus_that_a_job_may_use_without_torch(
    tmp_path: Path, variables: Mapping[str, str], seen: Mapping[str, object] | None
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**inherited, **path, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    alike = {"kind": "cuda", "name": "Tesla V100-SXM2-16GB", "memory_bytes": 16160 << 20}
    assert json.loads(done.stdout) == (seen and {**alike, **seen})


@pytest.mark.parametrize(
    ("visible", "places"),
    [(None, [0, 1, 2]), ("2,0", [2, 0]), ("", []), ("-1", []), ("1,7,0", [1]), ("GPU-c", [2])],
)
def test_which_gpus_are_visible_is_what_cuda_makes_of_it(
    visible: str | None, places: Sequence[int]
) -> None:
    uuids = ("GPU-a1", "GPU-b2", "GPU-c3")
    gpus = [{"index": str(at), "uuid": uuid} for at, uuid in enumerate(uuids)]
    assert visible_gpus(gpus, visible) == [gpus[place] for place in places]


@pytest.mark.parametrize(
    "text",
    [
        "V100",
        "7",
        '{"gpu": "V100"}',
        '{"accelerator": "V100", "kind": "rocm"}',
        '{"accelerator": "V100", "count": 0}',
        '{"accelerator": "V100", "memory_gib": "much"}',
        '{"accelerator": "V100", "capability": "Volta"}',
    ],
)
def test_a_wrong_description_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"COMPILEGATE_MACHINE is .*, allowed: what"):
        read_description(text)


def test_a_description_says_all_that_the_catalog_knows() -> None:
    for instance_type in instances():
        has = accelerators_of(instance_type)
        assert has is not None
        assert read_description(describing(has)).accelerators == has


def test_the_command_describes_an_instance_type_of_the_catalog_and_refuses_others() -> None:
    for instance_type in ("ml.p3.8xlarge", "ml.c6i.xlarge"):
        described = CliRunner().invoke(main, ["doctor", instance_type]).stdout
        assert read_description(described).accelerators == accelerators_of(instance_type)
    refused = CliRunner().invoke(main, ["doctor", "ml.p9.xlarge"])
    assert refused.exit_code != 0
    assert "TYPE is 'ml.p9.xlarge', expected an instance without an accelerator" in refused.stderr
