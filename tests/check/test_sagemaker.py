"""Programs that start jobs with SageMaker Training Compiler, and the scripts they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.check.rules.rule import TRAINING_COMPILER
from tests.check.writing import found, written

ASKED = (TRAINING_COMPILER,)


def launcher(
    *,
    framework: str = "HuggingFace",
    versions: str = 'transformers_version="4.21.1", pytorch_version="1.11.0"',
    instance: str = "ml.p3.2xlarge",
    hyperparameters: str = "{}",
    before: str = "",
    more: str = "",
) -> str:
    """A program with one estimator; the hyperparameters stand in line 8, when nothing is before."""
    module = "huggingface" if framework == "HuggingFace" else framework.lower()
    return f"""from sagemaker.{module} import {framework}, TrainingCompilerConfig
{before}
estimator = {framework}(
    entry_point="train.py",
    instance_type="{instance}",
    instance_count=1,
    {versions},
    hyperparameters={hyperparameters},
    compiler_config=TrainingCompilerConfig(),
    disable_profiler=True,
    debugger_hook_config=False,
    {more}
)
"""


@pytest.mark.parametrize(
    "name",
    [
        "bert-base-uncased",
        "google-bert/bert-base-uncased",
        "FacebookAI/xlm-roberta-base",
        "EleutherAI/gpt-neo-125M",
        "/opt/ml/input/data/model",
        "./checkpoints/last",
        "outputs/last",
        "my_model",
        "s3://bucket/model",
    ],
)
def test_tested_models_and_folders_are_no_untested_models(name: str, tmp_path: Path) -> None:
    text = launcher(hyperparameters=f'{{"model_name_or_path": "{name}"}}')
    assert found(written(tmp_path, launch=text), "untested-model") == []


@pytest.mark.parametrize("key", ["model_name_or_path", "model-name", "model_id"])
def test_an_untested_model_is_found_by_its_usual_names(key: str, tmp_path: Path) -> None:
    text = launcher(hyperparameters=f'{{"{key}": "google/flan-t5-xxl"}}')
    assert found(written(tmp_path, launch=text), "untested-model") == [("launch.py", 8)]


LOADING = """
from argparse import ArgumentParser
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

parser = ArgumentParser()
parser.add_argument("--base-model", default="mistralai/Mistral-7B-v0.1")
args = parser.parse_args()
config = AutoConfig.from_pretrained("mistralai/Mistral-7B-v0.1")
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
model = AutoModelForCausalLM.from_pretrained(args.base_model)
"""
TRAINING = """
from transformers import Trainer

Trainer(model).train()
"""


def test_what_a_script_loads_is_told_once_where_training_compiler_is_meant(tmp_path: Path) -> None:
    folder = written(tmp_path, train=LOADING)
    assert found(folder, "untested-model", ASKED) == []
    written(tmp_path, train=LOADING + TRAINING)
    assert found(folder, "untested-model") == []
    assert found(folder, "untested-model", ASKED) == [("train.py", 10)]
    written(tmp_path, launch=launcher())
    assert found(folder, "untested-model") == [("train.py", 10)]


def test_the_estimators_model_is_the_one_that_counts(tmp_path: Path) -> None:
    text = launcher(hyperparameters='{"model_name_or_path": "gpt2"}')
    folder = written(tmp_path, train=LOADING, launch=text)
    assert found(folder, "untested-model", ASKED) == []


@pytest.mark.parametrize(
    ("instance", "expected"),
    [("ml.p3.2xlarge", []), ("ml.g6.xlarge", []), ("local_gpu", []), ("ml.g5.16xlarge", [5])],
)
def test_an_untested_instance_is_one_of_a_supported_class(
    instance: str, expected: list[int], tmp_path: Path
) -> None:
    places = found(written(tmp_path, launch=launcher(instance=instance)), "untested-instance")
    assert [line for _, line in places] == expected


def test_the_batch_that_the_script_calls_native_is_found(tmp_path: Path) -> None:
    text = launcher(before="batch_size_native = 12", hyperparameters='{"batch_size": 12}')
    assert found(written(tmp_path, launch=text), "batch-not-raised") == [("launch.py", 8)]


@pytest.mark.parametrize(
    ("batch", "length", "instance", "expected"),
    [
        (12, 512, "ml.p3.2xlarge", True),  # AWS: 16 without the compiler, 20 with it
        (20, 512, "ml.p3.2xlarge", False),
        (12, 1024, "ml.p3.2xlarge", False),  # longer than any test
        (12, 512, "ml.p4d.24xlarge", False),  # no test of this model
    ],
)
def test_a_batch_below_that_of_awss_test_is_found(
    batch: int, length: int, instance: str, expected: bool, tmp_path: Path
) -> None:
    text = launcher(
        instance=instance,
        hyperparameters=f'{{"model_name_or_path": "bert-base-cased", "fp16": True, '
        f'"max_seq_length": {length}, "per_device_train_batch_size": {batch}}}',
    )
    assert bool(found(written(tmp_path, launch=text), "batch-not-raised")) == expected


def test_a_control_beside_a_larger_batch_is_right(tmp_path: Path) -> None:
    control = launcher(before="batch_size_native = 12", hyperparameters='{"batch_size": 12}')
    larger = launcher(hyperparameters='{"batch_size": 24}')
    assert found(written(tmp_path, launch=control + larger), "batch-not-raised") == []


def test_tensorflows_batch_may_stay(tmp_path: Path) -> None:
    text = launcher(
        framework="TensorFlow",
        versions='framework_version="2.11.0"',
        before="batch_size_native = 12",
        hyperparameters='{"batch_size": 12}',
    )
    assert found(written(tmp_path, launch=text), "batch-not-raised") == []


OPTION = """
from argparse import ArgumentParser

parser = ArgumentParser()
parser.add_argument("--preprocessing_num_workers", type=int, default={default})
"""


@pytest.mark.parametrize(
    ("default", "hyperparameters", "expected"),
    [
        ("None", "{}", 1),
        ("8", "{}", 0),
        ("None", '{"preprocessing_num_workers": 4}', 0),
        ("None", '{"preprocessing_num_workers": 2}', 1),
        ("None", '{"preprocessing_num_workers": workers}', 0),
    ],
)
def test_the_option_for_preprocessing_is_for_each_gpu(
    default: str, hyperparameters: str, expected: int, tmp_path: Path
) -> None:
    text = launcher(instance="ml.p3.8xlarge", hyperparameters=hyperparameters)
    folder = written(tmp_path, train=OPTION.format(default=default), launch=text)
    assert len(found(folder, "preprocessing-workers")) == expected


@pytest.mark.parametrize(
    ("data", "call", "expected"),
    [
        ("load_dataset('imdb')", "data['train'].shuffle(seed=1).map(tokens)", 1),
        ("load_dataset('imdb')", "data.map(function=tokens, num_proc=1)", 1),
        ("load_dataset('imdb')", "data.map(tokens, num_proc=workers)", 0),
        ("load_dataset('imdb')", "data.map(tokens, **options)", 0),
        ("load_dataset('imdb', streaming=True)", "data.map(tokens)", 0),
        ("executor()", "data.map(tokens, [1, 2])", 0),
    ],
)
def test_a_map_of_one_process_is_found(data: str, call: str, expected: int, tmp_path: Path) -> None:
    script = f"from datasets import load_dataset\ndata = {data}\ndata = {call}\n"
    folder = written(tmp_path, train=script)
    assert len(found(folder, "preprocessing-workers", ASKED)) == expected
    assert found(folder, "preprocessing-workers") == []


MANY = 'distribution={"pytorchxla": {"enabled": True}},'


@pytest.mark.parametrize(
    ("instance", "more", "expected"),
    [
        ("ml.p3.8xlarge", "", 1),
        ("ml.p3.8xlarge", MANY, 0),
        ("ml.p3.8xlarge", "**options", 0),
        ("ml.p3.2xlarge", "", 0),
    ],
)
def test_several_gpus_need_something_that_starts_their_processes(
    instance: str, more: str, expected: int, tmp_path: Path
) -> None:
    text = launcher(instance=instance, more=more)
    folder = written(tmp_path, launch=text)
    assert len(found(folder, "compiler-distribution")) == expected


def test_a_script_that_starts_its_processes_itself_is_right(tmp_path: Path) -> None:
    script = "import torch_xla.distributed.xla_multiprocessing as xmp\nxmp.spawn(main)\n"
    folder = written(tmp_path, train=script, launch=launcher(instance="ml.p3.8xlarge"))
    assert found(folder, "compiler-distribution") == []


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ('transformers_version="4.21.1", pytorch_version="1.11.0"', 0),
        ('transformers_version="4.21.1", pytorch_version="1.13.1"', 1),
        ('transformers_version="4.36", pytorch_version="2.1"', 1),
        ('transformers_version="4.17.0", tensorflow_version="2.6.3"', 0),
    ],
)
def test_versions_without_an_image_are_one_finding(
    versions: str, expected: int, tmp_path: Path
) -> None:
    folder = written(tmp_path, launch=launcher(versions=versions))
    assert len(found(folder, "compiler-image")) == expected


NATIVE = "batch_size_native = 16\nrate_native = float('5e-5')\n"


@pytest.mark.parametrize(
    ("instance", "rate", "expected"),
    [
        ("ml.p3.8xlarge", "5e-5", True),
        ("ml.p3.8xlarge", "rate_native / batch_size_native * batch", True),
        ("ml.p3.8xlarge", "rate_native / batch_size_native * batch * num_gpus", False),
        ("ml.p3.8xlarge", "rate_native * 4", False),
        ("ml.p3.8xlarge", "rate_native * many", False),
        ("ml.p3.2xlarge", "rate_native / batch_size_native * batch", False),
    ],
)
def test_the_rate_of_one_gpu_is_found_where_it_is_reckoned_too(
    instance: str, rate: str, expected: bool, tmp_path: Path
) -> None:
    text = launcher(
        instance=instance,
        before=f"{NATIVE}batch = 26\nnum_gpus = 4\nrate = {rate}\n",
        hyperparameters='{"batch_size": batch, "learning_rate": rate}',
        more=MANY,
    )
    assert bool(found(written(tmp_path, launch=text), "rate-for-one-gpu")) == expected


@pytest.mark.parametrize(
    ("batch", "rate", "expected"),
    [("64", "rate_native", 1), ("64", "rate_native * 4", 0), ("16", "rate_native", 0)],
)
def test_a_larger_batch_at_the_rate_called_native_is_found(
    batch: str, rate: str, expected: int, tmp_path: Path
) -> None:
    hyperparameters = f'{{"batch_size": {batch}, "learning_rate": {rate}}}'
    text = launcher(before=NATIVE, hyperparameters=hyperparameters)
    assert len(found(written(tmp_path, launch=text), "batch-without-rate")) == expected


def test_what_a_job_gives_the_trainer_is_read_too(tmp_path: Path) -> None:
    text = launcher(hyperparameters='{"logging_steps": 1, "fp16": False, "optim": "adamw_hf"}')
    folder = written(tmp_path, launch=text)
    for rule in ("trainer-too-often", "trainer-precision"):
        assert found(folder, rule) == [("launch.py", 8)]
    assert found(folder, "trainer-optimizer", ASKED) == [("launch.py", 8)]


def test_a_request_without_the_sdk_may_be_in_debug_mode(tmp_path: Path) -> None:
    request = """
    REQUEST = {
        "sagemaker_training_compiler_enabled": "true",
        "sagemaker_training_compiler_debug_mode": "true",
    }
    """
    assert found(written(tmp_path, launch=request), "compiler-debugging") == [("launch.py", 4)]


def test_a_script_that_multiplies_its_rate_by_its_processes_is_right(tmp_path: Path) -> None:
    text = launcher(instance="ml.p3.8xlarge", hyperparameters='{"learning_rate": 5e-5}', more=MANY)
    folder = written(tmp_path, launch=text)
    assert found(folder, "rate-for-one-gpu") == [("launch.py", 8)]
    written(folder, train="rate = args.learning_rate * xm.xrt_world_size()\n")
    assert found(folder, "rate-for-one-gpu") == []


SAVING = """
import torch_xla.core.xla_model as xm
from transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForMaskedLM.from_pretrained("gpt2").to(xm.xla_device())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    xm.mark_step()
tokenizer.save_pretrained("model")
model.save_pretrained("model"{how})
"""


@pytest.mark.parametrize(("how", "expected"), [("", [12]), (", save_function=xm.save", [])])
def test_a_model_is_saved_by_xla(how: str, expected: list[int], tmp_path: Path) -> None:
    folder = written(tmp_path, train=SAVING.format(how=how))
    assert [line for _, line in found(folder, "torch-save-with-xla")] == expected


CHANGED = """
settings = {"learning_rate": 5e-5}
settings["preprocessing_num_workers"] = 8
settings.update({"logging_steps": 100})
"""


@pytest.mark.parametrize(
    ("before", "hyperparameters"),
    [
        (CHANGED, "settings"),
        ("common = {'preprocessing_num_workers': 8}", "{**common, 'epochs': 3}"),
        ("from settings import common", "{**common, 'epochs': 3}"),
        ("settings = {}\nsettings.update(found)", "settings"),
        ("", "dict(preprocessing_num_workers=8)"),
    ],
)
def test_hyperparameters_are_read_as_they_are_when_the_job_is_made(
    before: str, hyperparameters: str, tmp_path: Path
) -> None:
    text = launcher(before=before, hyperparameters=hyperparameters)
    folder = written(tmp_path, train=OPTION.format(default="None"), launch=text)
    assert found(folder, "preprocessing-workers") == []


def test_a_hyperparameter_that_is_set_later_counts(tmp_path: Path) -> None:
    before = "settings = {'logging_steps': 100}\nsettings['logging_steps'] = 1"
    text = launcher(before=before, hyperparameters="settings")
    assert found(written(tmp_path, launch=text), "trainer-too-often") == [("launch.py", 3)]


NOTEBOOK = """
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

common = {"entry_point": "train.py", "instance_type": "ml.p3.2xlarge", "instance_count": 1}
settings = {"epochs": 3}
settings["train_batch_size"] = 28
settings["learning_rate"] = float("5e-5") / 32 * settings["train_batch_size"]
native = PyTorch(hyperparameters=settings, **common)
settings["train_batch_size"] = 42
settings["learning_rate"] = {rate}
compiled = PyTorch(
    hyperparameters=settings, compiler_config=TrainingCompilerConfig(), **common
)
"""


def test_a_rate_reckoned_from_the_batch_grows_with_it(tmp_path: Path) -> None:
    text = NOTEBOOK.replace("{rate}", 'float("5e-5") / 32 * settings["train_batch_size"]')
    folder = written(tmp_path, launch=text)
    assert found(folder, "batch-without-rate") == []
    assert found(folder, "batch-not-raised") == []
