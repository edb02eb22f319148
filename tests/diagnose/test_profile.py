"""What follows from a profile, on profiles that are made up."""

from __future__ import annotations

import json
import tarfile
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.diagnose.jobs import OutputError
from compilegate.diagnose.profile import analysis_of, read_profile, text_of
from compilegate.job.contract import PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.evidence.record import PaddedPositions, PaddingRecord
from compilegate.job.files import write_json
from compilegate.job.profiling.record import (
    COMPUTING,
    PARTS,
    UPDATE,
    Operator,
    Profile,
    ProfiledTime,
    StepTime,
)
from compilegate.job.profiling.session import WAIT, Events
from compilegate.job.slowdowns import break_reason

MATRIX = Operator(COMPUTING, "aten::addmm", 1, 0.004003)
POINTWISE = Operator(COMPUTING, "aten::mul", 2, 0.003006)


def profile_of(
    seconds: float = 0.010,
    operators: tuple[Operator, ...] = (MATRIX,),
    *,
    waited: float = 0.0,
    host: tuple[float, float] = (0.010, 0.0),
    communication: float = 0.0,
    copies: float = 0.0,
    outside: float = 0.0,
    **changes: Any,
) -> Profile:
    """Steps that are all alike."""
    found = Profile(
        program="train.py",
        arm=None,
        compiler="eager",
        device="cpu",
        hardware="1 threads of a processor",
        torch="2.13.0",
        processes=1,
        batch_size=8,
        warm_up=4,
        steps=(StepTime(seconds, waited),) * 10,
        profiled_steps=8,
        profiled=ProfiledTime(seconds, communication, copies, outside, *host),
        operators=operators,
        least_seconds=1e-6,
        synchronisations=(),
        shapes=(0,) * 8,
        graphs=None,
        trace="trace.json.gz",
    )
    return replace(found, **changes)


def test_a_step_is_divided_by_what_its_operators_take() -> None:
    parts = (MATRIX, POINTWISE, Operator(COMPUTING, "MulBackward0", 9, 0.002))
    found = analysis_of(profile_of(0.030, parts, waited=0.020, host=(0.002991, 0.003))).breakdown
    assert found.seconds == pytest.approx(0.030)
    assert found.parts["data"] == pytest.approx(0.020)
    assert found.inside[COMPUTING]["matrix"] == pytest.approx(0.004)
    assert found.inside[COMPUTING]["elementwise"] == pytest.approx(0.003)
    # What is left is the host's, in proportion to its time in both parts under the profiler: there
    # it is what no operator takes, what autograd's nodes take, and a little of each operator.
    assert found.inside[COMPUTING]["launches"] == pytest.approx(0.003 * 5 / 8)
    assert found.inside[UPDATE]["launches"] == pytest.approx(0.003 * 3 / 8)


def test_a_ceiling_is_amdahls_law() -> None:
    found = profile_of(0.020, (MATRIX, POINTWISE), waited=0.010, host=(0.010, 0.0))
    model_alone, with_update, _ = analysis_of(found).ceilings
    assert model_alone.saved == pytest.approx(6 / 20)  # launches, and what is pointwise
    assert model_alone.speedup == pytest.approx(20 / 14)
    assert model_alone.speedup == with_update.speedup < model_alone.speedup_high


def test_a_gpu_is_offered_graphs_of_its_own() -> None:
    kernels = (replace(MATRIX, device_seconds=0.010),)
    seen = profile_of(0.015, kernels, copies=0.002, host=(0.003, 0.0), device="cuda")
    found = analysis_of(seen)
    assert "CUDA graphs alone" in [each.compiler for each in found.ceilings]
    assert found.breakdown.parts["copies"] == pytest.approx(0.002)
    assert found.breakdown.inside[COMPUTING]["launches"] == pytest.approx(0.003)
    assert found.breakdown.inside[COMPUTING]["matrix"] == pytest.approx(0.010)


def test_a_loader_that_bursts_counts_by_its_mean() -> None:
    steps = (StepTime(0.001, 0.0), StepTime(0.021, 0.020)) * 10
    found = analysis_of(profile_of(steps=steps)).breakdown
    assert found.parts["data"] == pytest.approx(0.010)


def test_a_machine_that_was_busier_in_the_plain_steps_slows_all_parts_alike() -> None:
    calm, busy = (
        analysis_of(profile_of(seconds, (MATRIX, POINTWISE), host=(0.002991, 0.0))).breakdown
        for seconds in (0.010, 0.030)
    )
    for kind in ("matrix", "elementwise", "launches"):
        assert busy.share(busy.of_kind(kind)) == pytest.approx(calm.share(calm.of_kind(kind)))


def test_the_interval_is_that_of_the_steps() -> None:
    steps = tuple(StepTime(0.010 + 0.001 * (number % 3 - 1), 0.0) for number in range(30))
    margin = analysis_of(profile_of(steps=(*steps, StepTime(9.0, 0.0)))).breakdown.margin
    assert 0.0003 < margin < 0.001  # one step that was interrupted widens it little
    assert analysis_of(profile_of()).breakdown.margin == 0


@pytest.mark.parametrize(
    ("changes", "bottleneck"),
    [
        ({}, "matrix"),
        ({"waited": 0.004}, "data"),
        ({"communication": 0.004}, "communication"),
        ({"copies": 0.004}, "copies"),
        ({"outside": 0.005}, "between steps"),
        ({"shapes": (0, 1, 2, 3, 4, 5)}, "shapes"),
        ({"shapes": (0, 1, 0, 1, 0, 1)}, "matrix"),
        ({"operators": ()}, "launches"),
    ],
)
def test_a_fault_that_counts_goes_before_what_the_steps_compute(
    changes: dict[str, Any], bottleneck: str
) -> None:
    large = replace(MATRIX, seconds=0.008)
    found = analysis_of(profile_of(**{"operators": (large,), **changes}))
    assert found.bottleneck.kind == bottleneck
    assert json.loads(json.dumps(found.document))["bottleneck"] == bottleneck


def test_what_a_compiler_left_is_not_said_to_be_worth_one() -> None:
    eager, compiled = (
        analysis_of(profile_of(operators=(), compiler=compiler)).bottleneck
        for compiler in ("eager", "torch-compile")
    )
    assert eager.kind == compiled.kind == "launches"
    assert eager.remedy != compiled.remedy


SECONDS = st.floats(0, 1)


@pytest.mark.slow
@given(
    st.lists(st.builds(StepTime, SECONDS, SECONDS), min_size=1, max_size=8),
    st.lists(
        st.builds(
            Operator,
            st.sampled_from(PARTS),
            st.sampled_from(["aten::mm", "aten::mul"]),
            st.floats(0, 100),
            SECONDS,
            SECONDS,
        ),
        max_size=8,
    ),
    st.builds(ProfiledTime, *[SECONDS] * 6),
    st.sampled_from(["cpu", "cuda"]),
)
def test_parts_add_up_and_ceilings_are_finite_whatever_was_measured(
    steps: list[StepTime], seen: list[Operator], profiled: ProfiledTime, device: str
) -> None:
    found = analysis_of(
        profile_of(operators=tuple(seen), steps=tuple(steps), profiled=profiled, device=device)
    )
    parts = found.breakdown
    assert sum(parts.parts.values()) == pytest.approx(parts.seconds, abs=1e-9)
    for part in PARTS:
        assert sum(parts.inside[part].values()) == pytest.approx(parts.parts[part], abs=1e-9)
    for each in found.ceilings:
        assert 1 <= each.speedup <= each.speedup_high <= 100.01
    assert text_of(found)


def event(name: str, start: float, end: float, parent: Any = None, **changes: Any) -> Any:
    """As torch.profiler has it; times in milliseconds, all its own."""
    return SimpleNamespace(
        **{
            "name": name,
            "time_range": SimpleNamespace(start=start * 1000, end=end * 1000),
            "device_type": SimpleNamespace(name="CPU"),
            "self_cpu_time_total": (end - start) * 1000,
            "cpu_parent": parent,
            "kernels": [],
            "input_shapes": [],
            **changes,
        }
    )


GPU = {"device_type": SimpleNamespace(name="CUDA")}


def seen_in(*events: Any) -> Events:
    """These in a step of 50 milliseconds, behind one that does not count."""
    steps = [event("ProfilerStep#0", -50, 0), event("ProfilerStep#1", 0, 50)]
    return Events([*steps, *events])


def test_the_host_works_where_operators_leave_no_large_gap() -> None:
    update = event("Optimizer.step#SGD.step", 40, 48)
    found = seen_in(
        event(WAIT, 0, 10),
        event("aten::mm", 10.5, 20, input_shapes=[[8, 8]]),
        event("gloo:all_reduce", 18, 25),
        event("aten::mul", 30, 40),
        update,
        event("aten::add", 41, 47.5, update),
        event("aten::mul", 48, 50),
    )
    time = found.time()
    assert (time.seconds, time.communication) == pytest.approx((0.050, 0.005))
    assert time.outside == pytest.approx(0.005)  # from 25 to 30
    assert (time.computing, time.update) == pytest.approx((0.0005, 0.0015))
    assert [(each.part, each.name) for each in found.operators()] == [
        (COMPUTING, "aten::mul"),
        (COMPUTING, "aten::mm"),
        (UPDATE, "aten::add"),
    ]
    assert found.shapes() == (0,)


def test_a_devices_idle_time_is_charged_to_what_the_host_did() -> None:
    kernel = SimpleNamespace(duration=15_000.0)
    found = seen_in(
        event(WAIT, 0, 10),
        event("aten::mm", 10, 49.5, kernels=[kernel]),
        event("gemm", 15, 30, **GPU),
        event("Memcpy HtoD", 30, 35, **GPU),
        event("ncclAllReduce", 34, 45, **GPU),
    )
    time = found.time()
    assert (time.copies, time.communication) == pytest.approx((0.004, 0.011))
    assert (time.computing, time.update) == pytest.approx((0.010, 0.0))
    assert found.operators()[0].device_seconds == pytest.approx(0.015)


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
        ("", "no reason given"),
    ],
)
def test_a_breaks_reason_is_one_line(said: str, reason: str) -> None:
    assert break_reason(said) == reason


def test_a_profile_is_read_back_from_a_file_a_folder_or_an_archive(tmp_path: Path) -> None:
    padding = PaddingRecord(
        "longest", (), (16, 32), 600, PaddedPositions(1200, 800, 700), (32,), (9,)
    )
    profile = profile_of(padding=padding)
    file = tmp_path / PROFILE_FOLDER / PROFILE_FILE
    write_json(file, asdict(profile))
    archive = tmp_path / "output.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(file, f"{PROFILE_FOLDER}/{PROFILE_FILE}")
    for where in (file, file.parent, tmp_path, archive):
        assert read_profile(where) == profile
    said = text_of(analysis_of(profile))
    assert all(each in said for each in ("50%", "25%", "14%"))  # of each way's positions


DOCUMENT = asdict(profile_of())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({**DOCUMENT, "schema": 99}, "schema is 99, expected 4"),
        ({**DOCUMENT, "steps": []}, "steps is empty"),
        ({**DOCUMENT, "profiled": {}}, "profiled.seconds: field required"),
        ({**DOCUMENT, "processes": "many"}, "processes: input should be a valid integer"),
        ([], "not a profile of this release"),
        (b"{", "profile.json: "),
        (b"\xff\xfe", "profile.json: "),
    ],
)
def test_a_damaged_profile_is_refused_in_one_sentence(
    tmp_path: Path, content: Any, said: str
) -> None:
    path = tmp_path / PROFILE_FILE
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(OutputError, match=said):
        read_profile(path)
