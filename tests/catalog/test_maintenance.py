"""What each backend asks for, and who maintains what until when."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from compilegate.catalog import Asked, check
from compilegate.catalog.compilers import Maintenance, compilers, service

TODAY = datetime.date(2026, 11, 20)
NEW = Asked(compiler="torch-compile", backend="inductor", instance_type="ml.g5.xlarge")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"backend": "house.backends.compiling"}, []),
        (
            {"backend": "inducter"},
            ["'inducter' is no backend that the catalog knows; did you mean 'inductor'?"],
        ),
        (
            {"backend": "tvm"},
            ["'tvm' is no backend that the catalog knows; its package has to be in the arm's "
             "image"],
        ),
        (
            {"backend": "cudagraphs", "instance_type": "ml.m5.xlarge"},
            ["torch.compile with CUDA graphs alone does not run on ml.m5.xlarge, which has no "
             "accelerator; CUDA graphs are recorded on a GPU; take an instance with one, or "
             'compiler = "inductor"'],
        ),
        ({"backend": "cudagraphs"}, []),
        ({"backend": "neuron", "instance_type": "ml.trn2.48xlarge", "precision": "bf16"}, []),
        (
            {"backend": "neuron"},
            ["torch.compile with AWS Neuron (TorchNeuron) does not run on ml.g5.xlarge, which has "
             "GPUs; it compiles for Trainium; take a trn2 instance, or backend = \"inductor\""],
        ),
        (
            {"backend": "onnxrt", "version": "2.13"},
            ["torch.compile with ONNX Runtime works up to pytorch 2.8, not with 2.13; take another "
             'backend, such as "inductor"',
             "torch.compile with ONNX Runtime is no longer maintained since 2025-07-15 (the ONNX "
             "team of the PyTorch project): its code was taken out of torch, whose 2.8 is the last "
             "release with it (https://github.com/pytorch/pytorch/pull/158262, read 2026-11-22); "
             'take backend = "inductor"'],
        ),
        ({"backend": "onnxrt", "version": "2.8"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_each_backend_of_torch_compile_has_facts_of_its_own(
    changes: dict[str, object], told: list[str] | None
) -> None:
    found = check(dataclasses.replace(NEW, **changes), TODAY)
    if told is None:
        assert [(each.severity, each.about) for each in found] == [("warning", "compiler")]
    else:
        assert [each.sentence for each in found] == told


@pytest.mark.parametrize(
    ("day", "told"),
    [
        (datetime.date(2026, 6, 29), False),
        (datetime.date(2026, 6, 30), True),
        (datetime.date(2027, 6, 30), True),
        (datetime.date(2027, 7, 1), True),
    ],
)
def test_an_end_is_told_from_a_year_before_it(day: datetime.date, told: bool) -> None:
    asked = dataclasses.replace(NEW, profiler=True)
    ends = [each.reason for each in check(asked, day) if "SageMaker Profiler" in each.reason]
    assert bool(ends) is told
    if told:
        over = day > datetime.date(2027, 6, 30)
        assert ("is no longer maintained" in ends[0]) is over
        assert ("is about to end on 2027-06-30 (AWS)" in ends[0]) is not over


def every_maintenance() -> list[tuple[str, Maintenance]]:
    kinds = [*compilers().values(), *compilers()["torch-compile"].backends.values()]
    services = [(name, service(name)) for name in ("profiler", "debugger")]
    return [*((each.title, each.maintained) for each in kinds), *services]


@pytest.mark.parametrize(("title", "maintained"), every_maintenance())
def test_who_maintains_it_until_when_has_a_source_and_a_day(
    title: str, maintained: Maintenance
) -> None:
    assert maintained.by
    assert maintained.source.startswith("https://")
    assert maintained.date >= datetime.date(2026, 11, 1)
    told = maintained.end(title, TODAY)
    assert (told is None) == (maintained.status == "maintained")
    if told is not None:
        assert maintained.says  # of what ends, what is known of it and what to take instead
        assert maintained.instead
        assert maintained.source in told.reason
