"""A Training job shares its cores with nobody, in one execution and across executions."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition, Dependency, Step
from compilegate.local import ExecutionError
from compilegate.local.jobs.leases.cores import CorePool, available_cpus, physical_cores

RUNNER = """
import sys
from pathlib import Path
from compilegate.local import ImageSources, LocalExecutor
executor = LocalExecutor(
    definition=Path(sys.argv[1]).read_bytes(), home=Path(sys.argv[2]),
    images=ImageSources(patterns=(("*", "here"),)), shared=[Path(sys.argv[2]).parent],
    cores_per_job=1,
)
result = executor.follow(executor.start(sys.argv[3], {}))
print(result.status)
"""

RECORD = """
import json, os, sys, time
started = time.monotonic()
while time.process_time() < 0.1:
    pass
kind = "training" if "SM_MODEL_DIR" in os.environ else "processing"
job = os.environ.get("TRAINING_JOB_NAME") or os.environ["PROCESSING_JOB_NAME"]
record = {"kind": kind, "cpus": sorted(os.sched_getaffinity(0))}
with open(os.path.join(FOLDER, job), "w") as file:
    json.dump({**record, "from": started, "to": time.monotonic()}, file)
"""


def pool(folder: Path, *cores: tuple[int, ...]) -> CorePool:
    return CorePool(cores, folder)


def test_exclusive_leases_never_share_a_core(tmp_path: Path) -> None:
    cores = pool(tmp_path, (100,), (101,), (102,))
    first, second = cores.acquire_exclusive(2), cores.acquire_exclusive(1)
    assert first is not None
    assert second is not None
    assert (first.cpus, second.cpus) == ((100, 101), (102,))
    assert cores.acquire_exclusive(1) is None
    assert cores.acquire_shared(1) is None
    first.release()
    assert cores.acquire_exclusive(3) is None
    third = cores.acquire_shared(3)
    assert third is not None
    assert third.cpus == (100, 101)


def test_shared_leases_share_among_themselves_only(tmp_path: Path) -> None:
    cores = pool(tmp_path, (100,), (101,))
    first, second = cores.acquire_shared(2), cores.acquire_shared(2)
    assert first is not None
    assert second is not None
    assert first.cpus == second.cpus == (100, 101)
    first.release()
    assert cores.acquire_exclusive(1) is None


@pytest.mark.slow
def test_a_lease_counts_in_every_process_of_the_home(tmp_path: Path) -> None:
    lease = pool(tmp_path, (100,), (101,)).acquire_exclusive(1)
    assert lease is not None
    program = (
        "import sys; from pathlib import Path\n"
        "from compilegate.local.jobs.leases.cores import CorePool\n"
        "print(CorePool([(100,), (101,)], Path(sys.argv[1])).acquire_exclusive(1).cpus)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "(101,)\n"


def test_cpus_are_grouped_by_physical_core(tmp_path: Path) -> None:
    for cpu, siblings in {0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5", 2: "2-3", 3: "2-3"}.items():
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores({0, 1, 2, 3, 4, 5, 9}, tmp_path) == ((0, 4), (1, 5), (2, 3), (9,))
    assert physical_cores({4, 5, 3}, tmp_path) == ((3,), (4,), (5,))


@st.composite
def layered_graphs(draw: st.DrawFn) -> tuple[Definition, list[str]]:
    count = draw(st.integers(1, 7))
    steps = []
    for index in range(count):
        earlier = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        steps.append(
            Step(f"s{index}", "Training", {}, tuple(Dependency(f"s{i}") for i in sorted(earlier)))
        )
    return Definition((), tuple(steps)), [step.name for step in steps]


@pytest.mark.slow
@given(layered_graphs())
def test_the_most_steps_in_parallel_is_the_largest_set_without_an_order(
    made: tuple[Definition, list[str]],
) -> None:
    definition, names = made
    graph = build_graph(definition)
    ancestors: dict[str, set[str]] = {}
    for name in names:
        parents = graph.parents(name)
        ancestors[name] = set(parents).union(*(ancestors[parent] for parent in parents))
    largest = max(
        bin(chosen).count("1")
        for chosen in range(1 << len(names))
        if not any(
            b in ancestors[a]
            for i, a in enumerate(names)
            for j, b in enumerate(names)
            if chosen >> i & 1 and chosen >> j & 1
        )
    )
    assert most_in_parallel(graph, names) == largest


@pytest.mark.slow
def test_training_steps_in_parallel_divide_the_cores_evenly(bench: Any) -> None:
    code = "import os; print(len(os.sched_getaffinity(0)))"
    result = bench.run(bench.training("one", code), bench.training("two", code))
    cores = physical_cores(available_cpus())
    expected = f"{len(cores[0]) * max(1, len(cores) // 2)}\n"
    assert {step.log.read_text() for step in result.steps.values()} == {expected}


def test_more_cores_for_a_job_than_there_are_is_refused(bench: Any) -> None:
    with pytest.raises(ExecutionError, match="1000 cores for each job"):
        bench.run(bench.training("train"), cores_per_job=1000)
    with pytest.raises(ExecutionError, match="choose from the CPUs of this process"):
        bench.run(bench.training("train"), cores=[100_000])


@pytest.mark.slow
def test_two_executions_at_once_keep_training_jobs_apart(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    code = f"FOLDER = {str(folder)!r}\n{RECORD}"
    runners = []
    for name in ("left", "right"):
        steps = [bench.training(f"train-{index}", code) for index in range(3)]
        steps.append(bench.processing("process", code))
        path = tmp_path / f"{name}.json"
        path.write_text(bench.definition(*steps))
        command = [sys.executable, "-c", RUNNER, str(path), str(bench.home), name]
        runners.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    assert [runner.communicate(timeout=60)[0] for runner in runners] == ["Succeeded\n"] * 2

    records = [json.loads(path.read_text()) for path in folder.iterdir()]
    assert len(records) == 8
    for index, one in enumerate(records):
        for other in records[index + 1 :]:
            overlap = one["from"] < other["to"] and other["from"] < one["to"]
            if overlap and "training" in {one["kind"], other["kind"]}:
                assert not set(one["cpus"]) & set(other["cpus"]), (one, other)
