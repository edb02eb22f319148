"""What an arm may say of its image, its instances and its compiler."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from compilegate.workload.declared.arm import ArmTable
from compilegate.workload.declared.stacks import STACKS
from tests.workload.settled import settled_arm

PLAIN = {"compiler": "training-compiler", "batch_size": 8, "learning_rate": 1e-3}


def arm(**changes: object) -> ArmTable:
    return ArmTable.model_validate({**PLAIN, **changes})


def test_training_compiler_s_stack_is_its_newest_unless_another_is_declared() -> None:
    assert arm().stack == STACKS["training-compiler"](framework="pytorch", version="1.13.1")
    older = {"version": "1.10.2", "transformers": "4.17.0", "debug": True}
    assert arm(training_compiler=older).stack == STACKS["training-compiler"].model_validate(older)
    assert arm(compiler="neuron").stack == STACKS["neuron"].model_validate({"version": "2.9.0"})
    assert arm(compiler="inductor").stack is None


def test_torchrun_starts_the_processes_of_xla_too() -> None:
    wide = settled_arm(**{**PLAIN, "compiler": "xla", "distribution": "torchrun", "processes": 2})
    assert (wide.world_size, wide.global_batch_size) == (2, 2 * wide.batch_size)


def test_a_backend_of_torch_compile_has_a_name_a_mode_and_options_of_its_own() -> None:
    settled = settled_arm(
        compiler="torch-compile",
        batch_size=8,
        learning_rate=1e-3,
        backend="house.backends.compiling",
        options={"triton.cudagraphs": True, "level": 2},
        mode="max-autotune",
        dynamic=True,
    )
    assert settled.compiler_options == {
        "backend": "house.backends.compiling",
        "backend_options": '{"level":2,"triton.cudagraphs":true}',
        "compile_mode": "max-autotune",
        "dynamic_shapes": True,
    }


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"compiler": "torch-compile", "backend": "no name"},
            "'no name' is not a backend of torch.compile by its name, or a function as "
            "package.module.function",
        ),
        (
            {"compiler": "torch-compile", "backend": "eager"},
            "backend is 'eager', which runs the captured graph as it is and compiles nothing; take "
            "compiler = 'eager'",
        ),
        (
            {"compiler": "torch-compile", "backend": "cudagraphs", "mode": "max-autotune"},
            "mode is 'max-autotune' with backend 'cudagraphs', which has none; leave it out",
        ),
        (
            {"compiler": "torch-compile", "options": {"two words": 1}},
            "options has 'two words', which is no name of an option",
        ),
        (
            {"compiler": "torch-compile", "options": {"nested": {"a": 1}}},
            "options.nested is {'a': 1}, allowed: true, false, a number, a text",
        ),
        (
            {"compiler": "inductor", "backend": "aot_eager"},
            "backend is 'aot_eager' with compiler 'inductor', allowed: only with 'torch-compile'",
        ),
        (
            {"compiler": "inductor", "training_compiler": {}},
            "a table training_compiler is given and compiler is 'inductor', allowed: only with "
            "compiler = 'training-compiler'",
        ),
        (
            {"neuron": {}},
            "a table neuron is given and compiler is 'training-compiler', allowed: only with "
            "compiler = 'neuron'",
        ),
        (
            {"compiler": "eager", "image": "aws"},
            "image is 'aws' and compiler is 'eager', allowed: only with a compiler for which "
            "AWS has images",
        ),
        (
            {"distribution": "smdistributed"},
            "found 'smdistributed', allowed: 'none', 'torchrun', 'pytorchxla' or 'sm_dist'; "
            "SageMaker's distributed libraries and Training Compiler exclude each other",
        ),
        (
            {"instance_groups": [{"instance_type": "ml.p3.2xlarge"}]},
            "instance_groups is given, allowed: instance_type and instance_count",
        ),
        (
            {"compiler": "inductor", "step_graphs": 2},
            "step_graphs is 2 with compiler 'inductor', allowed: only with 'neuron' or "
            "'training-compiler' or 'xla'",
        ),
        (
            {"compiler": "neuron", "distribution": "torchrun", "processes": 2},
            "distribution is 'torchrun' with compiler 'neuron', allowed: 'none'",
        ),
        (
            {"distribution": "torchrun"},
            "distribution is 'torchrun' with compiler 'training-compiler', allowed: 'pytorchxla' "
            "or 'sm_dist'",
        ),
        (
            {"instance_type": "local_gpu"},
            "found 'local_gpu', allowed: an instance type of SageMaker, as in 'ml.g5.xlarge'; "
            "`compilegate run` trains on this machine",
        ),
        (
            {"instance_count": 2},
            "instance_count is 2 and distribution is 'none', allowed: a distribution, or one",
        ),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        arm(**changes)
    assert sentence in str(caught.value)
