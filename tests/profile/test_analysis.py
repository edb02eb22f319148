"""What follows from a profile, on profiles that are made up."""

from __future__ import annotations

import dataclasses
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compilegate.job.files import write_json
from compilegate.job.names import PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.profiling.events import (
    STEP,
    Event,
    highest_memory,
    on_device,
    operators,
    own_times,
)
from compilegate.job.profiling.graphs import break_reason
from compilegate.job.profiling.record import (
    BACKWARD,
    DATA,
    FORWARD,
    OTHER,
    PHASES,
    UPDATE,
    DeviceTime,
    Lengths,
    Operator,
    PhaseTime,
    Profile,
    Shapes,
    document_of,
)
from compilegate.profile import ProfileError, analysis_of, read_profile, text_of
from compilegate.profile.lengths import bucket_ends, lengths_view

MS = 1_000_000


def steps_of(count: int = 10, **milliseconds: float) -> tuple[dict[str, PhaseTime], ...]:
    """Steps that are all alike; a phase in which nothing computes is `waits_...`."""
    step = {
        phase: PhaseTime(
            (milliseconds.get(phase, 0) + milliseconds.get(f"waits_{phase}", 0)) / 1e3,
            milliseconds.get(phase, 0) / 1e3,
        )
        for phase in PHASES
    }
    return (step,) * count


def profile_of(steps: Any, operators: tuple[Operator, ...] = (), **changes: Any) -> Profile:
    return dataclasses.replace(
        Profile(
            program="train.py",
            arm=None,
            compiler="eager",
            device="cpu",
            hardware="1 threads of a processor",
            torch="2.13.0",
            threads=1,
            processes=1,
            batch_size=8,
            steps=steps,
            profiled=steps[:1],
            warm_up=4,
            looked_at=2,
            operators=operators,
            least_microseconds=1.0,
            on_device=None,
            synchronisations=(),
            lines=(),
            captured=None,
            shapes=Shapes((0,) * 20, ("input [8, 4]",)),
            lengths=None,
            memory=None,
            trace=None,
        ),
        **changes,
    )


MATRIX = Operator(FORWARD, "aten::addmm", "", 1, 4003.0)
POINTWISE = Operator(BACKWARD, "aten::mul", "", 2, 1503.0)


def test_phases_are_divided_by_what_their_operators_take() -> None:
    found = analysis_of(
        profile_of(steps_of(forward=5, backward=4, update=1), (MATRIX, POINTWISE))
    ).parts
    assert found.step.seconds == pytest.approx(0.010)
    assert found.inside[FORWARD, "matrix"] == pytest.approx(0.004)
    assert found.inside[FORWARD, "launches"] == pytest.approx(0.001)
    assert found.inside[BACKWARD, "elementwise"] == pytest.approx(0.003)
    assert found.inside[UPDATE, "launches"] == pytest.approx(0.001)


def test_the_wait_for_another_process_is_communication_where_they_exchange_something() -> None:
    steps = steps_of(forward=2, waits_forward=1, backward=2, waits_backward=6)
    talk = Operator(BACKWARD, "gloo:all_reduce", "", 1, 1000.0)
    together = analysis_of(profile_of(steps, (MATRIX, talk), processes=2)).parts
    assert together.communication.seconds == pytest.approx(0.006)
    assert together.idle.seconds == pytest.approx(0.001)
    alone = analysis_of(profile_of(steps, (MATRIX,))).parts
    assert (alone.communication.seconds, alone.idle.seconds) == pytest.approx((0.0, 0.007))


def test_a_ceiling_is_amdahls_law() -> None:
    steps = steps_of(forward=5, backward=4, update=1, waits_data=10)
    model_alone, with_update, _ = analysis_of(profile_of(steps, (MATRIX, POINTWISE))).ceilings
    assert model_alone.saved == pytest.approx(5 / 20)  # launches of both, and what is pointwise
    assert model_alone.speedup == pytest.approx(20 / 15)
    assert with_update.saved == pytest.approx(6 / 20)
    assert model_alone.speedup < model_alone.speedup_high < with_update.speedup_high


def test_a_gpu_is_offered_graphs_of_its_own() -> None:
    device = DeviceTime(0.02, 0.010, 0.002, 0.0, {FORWARD: 0.003, DATA: 0.005})
    kernels = (dataclasses.replace(MATRIX, device_microseconds=10_000.0),)
    found = analysis_of(
        profile_of(steps_of(forward=12, waits_data=8), kernels, device="cuda", on_device=device)
    )
    assert "CUDA graphs alone" in [each.compiler for each in found.ceilings]
    assert found.parts.copies.seconds == pytest.approx(0.002)
    assert found.parts.loader.seconds == pytest.approx(0.005)
    assert found.parts.inside[FORWARD, "launches"] == pytest.approx(0.003)
    assert found.parts.inside[FORWARD, "matrix"] == pytest.approx(0.010)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(*[st.floats(0, 1) for _ in PHASES], *[st.floats(0, 1) for _ in PHASES]),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.sampled_from(PHASES), st.floats(0, 100), st.floats(0, 1e6)), max_size=8),
    st.integers(1, 4),
)
# A typical step that computes for less than any clock can tell, beside one of a second.
@example(
    rows=[(0.0,) * 10, (0.0,) * 10, (0.0, 0.0, 1.0, *(0.0,) * 7), (0.0, 0.0, 2e-313, *(0.0,) * 7)],
    calls=[("backward", 1.0, 0.0)],
    threads=2,
)
def test_parts_add_up_and_ceilings_are_finite_whatever_was_measured(
    rows: list[tuple[float, ...]], calls: list[tuple[str, float, float]], threads: int
) -> None:
    steps = tuple(
        {
            phase: PhaseTime(row[at], min(row[at], row[at + len(PHASES)]))
            for at, phase in enumerate(PHASES)
        }
        for row in rows
    )
    seen = tuple(Operator(phase, "aten::mul", "", count, took) for phase, count, took in calls)
    found = analysis_of(profile_of(steps, seen, threads=threads))
    parts = found.parts
    computing = sum(each.seconds for each in parts.computing.values())
    others = (parts.loader, parts.copies, parts.communication, parts.between, parts.idle)
    whole = computing + sum(each.seconds for each in others)
    assert whole == pytest.approx(parts.step.seconds, abs=1e-9)
    assert sum(parts.inside.values()) == pytest.approx(computing, abs=1e-9)
    for each in found.ceilings:
        assert 1 <= each.speedup <= each.speedup_high <= 100.01
    assert text_of(found)


def test_a_loader_that_bursts_counts_by_its_mean() -> None:
    quick, slow = steps_of(1, forward=1)[0], steps_of(1, forward=1, waits_data=20)[0]
    found = analysis_of(profile_of((quick, slow) * 10)).parts
    assert found.loader.seconds > 0.005


def test_of_bucket_ends_none_is_better() -> None:
    lengths = np.array([3, 3, 4, 9, 9, 10, 30, 31])
    ends = bucket_ends(lengths, 3)
    assert ends == (4, 10, 31)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 4))
def test_bucket_ends_are_the_best_that_there_are(lengths: list[int], count: int) -> None:
    from itertools import combinations  # noqa: PLC0415

    def cost(ends: tuple[int, ...]) -> int:
        return sum(min(end for end in ends if end >= each) for each in lengths)

    values = sorted(set(lengths))
    most = values[-1]
    best = min(
        cost((*chosen, most))
        for size in range(min(count, len(values)))
        for chosen in combinations(values[:-1], size)
    )
    ends = bucket_ends(np.array(lengths), count)
    assert len(ends) <= count
    assert ends[-1] == most
    assert cost(ends) == best


def test_lengths_that_are_all_full_say_nothing() -> None:
    assert lengths_view(Lengths("shape", (8,) * 4, (8,) * 4, (1, 1, 2, 2))) is None
    assert lengths_view(None) is None


def test_an_operator_is_charged_without_those_that_it_calls() -> None:
    outer, inner = (
        Event("aten::linear", 0, 100, 1, on_device=False, number=1),
        Event("aten::addmm", 20, 90, 1, on_device=False, number=2),
    )
    assert {each.name: own for each, own in own_times([inner, outer])} == {
        "aten::linear": 30,
        "aten::addmm": 70,
    }


def test_a_devices_idle_time_is_charged_to_what_the_host_did() -> None:
    marks = [
        (0, DATA),
        (10 * MS, FORWARD),
        (20 * MS, BACKWARD),
        (40 * MS, OTHER),
        (50 * MS, STEP),
    ]
    events = [
        Event("aten::mm", 11 * MS, 12 * MS, 1, on_device=False, number=7),
        Event("gemm", 15 * MS, 30 * MS, 7, on_device=True, launched_by=7),
        Event("Memcpy HtoD", 30 * MS, 35 * MS, 7, on_device=True),
        Event("ncclAllReduce", 34 * MS, 45 * MS, 7, on_device=True),
    ]
    found = on_device(events, marks, 1)
    assert found is not None
    assert (found.busy, found.copies, found.communication) == pytest.approx((0.015, 0.005, 0.010))
    assert found.idle_in == pytest.approx({DATA: 0.010, FORWARD: 0.005, OTHER: 0.005})
    (product,) = operators(events, marks, 1)
    assert (product.phase, product.device_microseconds) == (FORWARD, 15_000.0)


def test_memory_counts_from_what_a_step_began_with() -> None:
    def allocation(at: int, size: int) -> Event:
        return Event("[memory]", at, at, 1, on_device=False, bytes=size)

    marks = [(0, FORWARD), (10, BACKWARD), (20, STEP), (20, FORWARD)]
    events = [allocation(1, 100), allocation(11, 50), allocation(12, -120), allocation(21, 60)]
    assert highest_memory(events, marks) == {FORWARD: 100, BACKWARD: 150}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Graph break in user code at a.py:3\nGraph Break Reason: Data-dependent branching\n"
            "  Explanation: it is.\n",
            "Data-dependent branching it is.",
        ),
        (
            "Graph break in user code at a.py:3\nGraph Break Reason: Encountered graph break when "
            "attempting to trace CALL: a function call, e.g. f(x, y):\n\nUnsupported item()\n  Why",
            "Unsupported item()",
        ),
        ("something else", "something else"),
        ("", "no reason given"),
    ],
    ids=["plain", "while tracing", "another torch", "nothing"],
)
def test_a_breaks_reason_is_one_line(said: str, reason: str) -> None:
    assert break_reason(said) == reason


def test_a_profile_is_read_back_from_a_file_a_folder_or_an_archive(tmp_path: Path) -> None:
    profile = profile_of(steps_of(forward=1), (MATRIX,))
    file = tmp_path / PROFILE_FOLDER / PROFILE_FILE
    write_json(file, document_of(profile))
    archive = tmp_path / "output.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(file, f"{PROFILE_FOLDER}/{PROFILE_FILE}")
    for where in (file, file.parent, tmp_path, archive):
        assert read_profile(where) == profile


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "schema is 99, allowed: 1"),
        ({"steps": []}, "steps is empty"),
        ({"steps": [{"forward": {"seconds": 1.0, "processor": 1.0}}]}, "steps.0.data is missing"),
        ({"least_microseconds": -1.0}, "least_microseconds is -1.0, expected zero or more"),
        ({"threads": "many"}, "threads: input should be a valid integer"),
    ],
    ids=["schema", "no steps", "no phase", "negative", "type"],
)
def test_a_damaged_profile_is_refused_in_one_sentence(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tmp_path / PROFILE_FILE
    write_json(path, {**document_of(profile_of(steps_of(forward=1))), **change})
    with pytest.raises(ProfileError, match=said):
        read_profile(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"schema": 1}'])
def test_what_is_no_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / PROFILE_FILE
    path.write_bytes(content)
    with pytest.raises(ProfileError):
        read_profile(path)


def test_an_archive_of_another_job_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "output.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("evidence/evidence.json"), io.BytesIO())
    with pytest.raises(ProfileError, match=r"output\.tar\.gz holds no readable"):
        read_profile(archive)


def test_the_document_is_json() -> None:
    lengths = Lengths("mask", (3, 8, 4, 8), (8,) * 4, (1, 1, 2, 2))
    found = analysis_of(profile_of(steps_of(forward=1), (MATRIX,), lengths=lengths))
    assert json.loads(json.dumps(found.document))["bottleneck"] == "matrix"


def test_what_a_compiler_left_is_not_told_to_be_worth_one() -> None:
    eager, compiled = (
        analysis_of(profile_of(steps_of(forward=9), (), compiler=compiler)).bottleneck
        for compiler in ("eager", "torch-compile")
    )
    assert (eager.kind, compiled.kind) == ("launches", "launches")
    assert "worth a benchmark" in eager.remedy
    assert "what the compiler left" in compiled.remedy
