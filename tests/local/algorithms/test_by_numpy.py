"""Linear Learner and K-Means train here, and their models answer."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from typing import Any

import numpy as np
import pytest

from compilegate.local import RefusedDefinitionError
from compilegate.local.algorithms.images import built_in_algorithm
from compilegate.local.algorithms.programs.contract import JobError, Table, read_channels
from compilegate.local.algorithms.programs.linear_learner import f_score, loss_of

REGISTRY = "382416733822.dkr.ecr.us-east-1.amazonaws.com"
LINEAR, K_MEANS = f"{REGISTRY}/linear-learner:1", f"{REGISTRY}/kmeans:1"
CSV = "text/csv"
RECORDS = "application/x-recordio-protobuf"
BINARY = {"predictor_type": "binary_classifier", "mini_batch_size": "20"}


def rows(count: int, seed: int) -> Any:
    """A label of 0 or 1, and two features: the first tells the label, on another scale."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, count)
    return np.column_stack(
        [label, 1000 + 50 * label + random.normal(0, 5, count), random.normal(size=count)]
    )


def as_csv(data: Any) -> str:
    return "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in data)


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(values: Any, keys: Any = (), width: int = 0) -> bytes:
    body = field(1, struct.pack(f"<{len(values)}f", *values))
    if keys:
        body += field(2, b"".join(map(varint, keys))) + field(3, varint(width))
    return field(2, field(2, body))


def record(features: bytes, label: float | None = None) -> bytes:
    message = field(1, field(1, b"values") + features)
    if label is not None:
        message += field(2, field(1, b"values") + tensor([label]))
    padding = b"\0" * (-len(message) % 4)
    return struct.pack("<II", 0xCED7230A, len(message)) + message + padding


def as_records(data: Any) -> bytes:
    return b"".join(record(tensor(row[1:]), row[0]) for row in data)


def step_of(
    bench: Any, image: str, hyperparameters: Any, content: str | None = CSV, **others: Any
) -> Any:
    step = bench.training("train")
    arguments = step["Arguments"]
    arguments["AlgorithmSpecification"] = {"TrainingImage": image, "TrainingInputMode": "File"}
    arguments["HyperParameters"] = dict(hyperparameters)
    arguments["InputDataConfig"] = [
        {
            "ChannelName": name,
            "DataSource": {"S3DataSource": {"S3Uri": f"s3://data/{name}"}},
            **({} if content is None else {"ContentType": content}),
        }
        for name in ("train", "validation", "test")
        if bench.store.exists(f"s3://data/{name}")
    ]
    arguments.update(others)
    return step


def answering(accept: str, content: str = CSV, image: str = LINEAR) -> list[Any]:
    """A model of what `train` left, and a batch that it answers."""
    model = {"Image": image, "ModelDataUrl": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}}
    return [
        {"Name": "make", "Type": "Model", "Arguments": {"PrimaryContainer": model}},
        {
            "Name": "answer",
            "Type": "Transform",
            "Arguments": {
                "ModelName": {"Get": "Steps.make.ModelName"},
                "TransformInput": {
                    "DataSource": {"S3DataSource": {"S3Uri": "s3://batch/rows"}},
                    "ContentType": content,
                    "SplitType": "Line",
                },
                "TransformOutput": {
                    "S3OutputPath": "s3://batch/out",
                    "AssembleWith": "Line",
                    **({"Accept": accept} if accept else {}),
                },
                "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
            },
        },
    ]


def metrics_of(result: Any) -> dict[str, float]:
    found = result.steps["train"].properties["FinalMetricDataList"]
    return {metric["MetricName"]: metric["Value"] for metric in found}


def lines_of(bench: Any) -> list[Any]:
    return [json.loads(line) for line in bench.store.read("s3://batch/out/rows.out").splitlines()]


@pytest.mark.slow
def test_a_binary_classifier_learns_prints_its_metrics_and_answers_a_batch(bench: Any) -> None:
    bench.put("s3://data/train/a.csv", as_csv(rows(200, 0)))
    bench.put("s3://data/validation/a.csv", as_csv(rows(100, 1)))
    bench.put("s3://data/test/a.csv", as_csv(rows(100, 2)))
    batch = rows(6, 3)
    bench.put("s3://batch/rows", as_csv(batch[:, 1:]))
    result = bench.run(step_of(bench, LINEAR, BINARY), *answering(""))
    assert result.status == "Succeeded", result.failure
    found = metrics_of(result)
    assert found["test:binary_classification_accuracy"] > 0.97
    assert found["validation:roc_auc_score"] > 0.97
    assert found["validation:objective_loss"] == found["validation:objective_loss:final"]
    assert {"train:objective_loss", "test:objective_loss", "test:recall"} <= set(found)
    log = result.steps["train"].log.read_text()
    assert "epoch=0, train binary_classification_cross_entropy_objective <loss>=" in log
    assert "#test_score (algo-1) : ('binary_f_beta', " in log
    answers = lines_of(bench)
    assert [answer["predicted_label"] for answer in answers] == list(batch[:, 0])
    assert all(0 <= answer["score"] <= 1 for answer in answers)


@pytest.mark.slow
def test_a_regressor_reads_records_through_what_the_request_calls_a_pipe(bench: Any) -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(300, 2))
    data = np.column_stack([features @ [3.0, -2.0] + 100, features])
    bench.put("s3://data/train/part-0", as_records(data[:150]))
    bench.put("s3://data/train/part-1", as_records(data[150:]))
    bench.put("s3://batch/rows", '{"features": [1, 1]}\n{"features": [0, 0]}\n')
    step = step_of(
        bench,
        LINEAR,
        {"predictor_type": "regressor", "mini_batch_size": "25", "feature_dim": "2"},
        None,
    )
    step["Arguments"]["AlgorithmSpecification"]["TrainingInputMode"] = "Pipe"
    result = bench.run(step, *answering("application/jsonlines", "application/jsonlines"))
    assert result.status == "Succeeded", result.failure
    assert metrics_of(result)["train:rmse"] < 0.2
    assert [answer["score"] for answer in lines_of(bench)] == pytest.approx([101, 100], abs=0.5)


@pytest.mark.slow
def test_many_classes_each_have_a_score(bench: Any) -> None:
    random = np.random.default_rng(0)
    label = random.integers(0, 3, 240)
    data = np.column_stack([label, random.normal(size=(240, 2)) + 6 * np.eye(3)[label][:, :2]])
    bench.put("s3://data/train/a", as_csv(data))
    bench.put("s3://batch/rows", "6,0\n0,6\n0,0\n")
    told = {"predictor_type": "multiclass_classifier", "num_classes": "3", "mini_batch_size": "20"}
    result = bench.run(step_of(bench, LINEAR, told), *answering("application/json"))
    assert result.status == "Succeeded", result.failure
    assert metrics_of(result)["train:multiclass_accuracy"] > 0.95
    (whole,) = lines_of(bench)
    assert [answer["predicted_label"] for answer in whole["predictions"]] == [0, 1, 2]
    assert all(len(answer["score"]) == 3 for answer in whole["predictions"])


@pytest.mark.slow
def test_k_means_finds_the_centres_and_tells_which_is_closest(bench: Any) -> None:
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    data = centres[random.integers(0, 3, 150)] + random.normal(size=(150, 2))
    bench.put("s3://data/train/a.csv", as_csv(data))
    bench.put("s3://data/test/a.csv", as_csv(data[:50]))
    bench.put("s3://batch/rows", "0,0\n20,0\n0,20\n")
    told = {"k": "3", "feature_dim": "2", "eval_metrics": '["msd", "ssd"]'}
    step = step_of(bench, K_MEANS, told, "text/csv;label_size=0")
    result = bench.run(step, *answering("", image=K_MEANS))
    assert result.status == "Succeeded", result.failure
    found = metrics_of(result)
    assert found["test:msd"] == pytest.approx(found["test:ssd"] / 50)
    assert found["train:msd"] < 3
    assert len({answer["closest_cluster"] for answer in lines_of(bench)}) == 3
    assert all(answer["distance_to_cluster"] < 1 for answer in lines_of(bench))
    uri = result.steps["train"].properties["ModelArtifacts"]["S3ModelArtifacts"]
    with tarfile.open(bench.store.path(uri)) as archive:
        file = archive.extractfile("model_algo-1")
        assert file is not None
        model = np.load(io.BytesIO(file.read()), allow_pickle=False)
    assert sorted(map(tuple, model["centroids"].round(-1))) == sorted(map(tuple, centres))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "hyperparameters", "data", "sentence"),
    [
        (LINEAR, {}, "1,2\n", "predictor_type is missing"),
        (LINEAR, {**BINARY, "depth": "3"}, "1,2\n", "depth is not one of the Linear Learner"),
        (LINEAR, BINARY, "3,2\n", "a label of the channel train is neither 0 nor 1"),
        (LINEAR, {**BINARY, "loss": "huber_loss"}, "1,2\n", "allowed for a binary_classifier"),
        (LINEAR, {**BINARY, "feature_dim": "7"}, "1,2\n", "1 features, feature_dim says 7"),
        (LINEAR, BINARY, "label,x\n1,2\n", "takes CSV without a header"),
        (K_MEANS, {"k": "5"}, "1,2\n", "k is 5, but the channel train has 1 rows"),
    ],
    ids=["missing", "unknown", "label", "loss", "width", "header", "k"],
)
def test_what_an_algorithm_does_not_take_fails_the_job_with_a_sentence(
    bench: Any, image: str, hyperparameters: Any, data: str, sentence: str
) -> None:
    bench.put("s3://data/train/a.csv", data)
    result = bench.run(step_of(bench, image, hyperparameters))
    assert sentence in result.steps["train"].properties["FailureReason"]


def test_data_that_is_divided_among_instances_is_refused(bench: Any) -> None:
    bench.put("s3://data/train/a.csv", "1,2\n")
    step = step_of(bench, LINEAR, BINARY)
    step["Arguments"]["ResourceConfig"]["InstanceCount"] = 2
    (channel,) = step["Arguments"]["InputDataConfig"]
    channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] = "ShardedByS3Key"
    with pytest.raises(RefusedDefinitionError) as caught:
        bench.run(step)
    assert "the channel train is divided among 2 instances" in caught.value.problems[0]


class Job:
    """The files of a job, in a folder."""

    def __init__(self, folder: Any, content: bytes, declared: str = RECORDS) -> None:
        self.data = folder
        (folder / "train").mkdir()
        (folder / "train/a").write_bytes(content)
        self.channels = {"train": {"ContentType": declared}}

    def told(self, _name: str) -> Any:
        return self.channels


def table_of(job: Job) -> Table:
    return read_channels(job, ("train",), None, "Linear Learner")["train"]


def test_sparse_records_are_as_wide_as_they_say(tmp_path: Any) -> None:
    job = Job(tmp_path, record(tensor([5.0], [2], 4), 1) + record(tensor([7.0, 8.0], [0, 3], 4), 0))
    table = table_of(job)
    assert table.features.tolist() == [[0, 0, 5, 0], [7, 0, 0, 8]]
    assert table.labels.tolist() == [1, 0]


def test_records_without_labels_have_none(tmp_path: Any) -> None:
    assert table_of(Job(tmp_path, record(tensor([1.0, 2.0])))).labels is None


@pytest.mark.parametrize(
    "content",
    [b"1,2,3\n", as_records(rows(3, 0))[:-5], record(b"\xff" * 9), struct.pack("<II", 0, 4)],
    ids=["csv", "cut off", "no message", "no magic"],
)
def test_what_is_no_record_is_a_sentence(tmp_path: Any, content: bytes) -> None:
    with pytest.raises(JobError, match="is damaged"):
        table_of(Job(tmp_path, content))


@pytest.mark.parametrize("columns", [b"1,2\n", b"1,2\n3,4,5\n", b"1,nan\n", b"1\n", b"\n"])
def test_a_table_is_whole_or_a_sentence(tmp_path: Any, columns: bytes) -> None:
    job = Job(tmp_path, columns, CSV)
    if columns == b"1,2\n":
        assert table_of(job).features.tolist() == [[2.0]]
    else:
        with pytest.raises(JobError):
            table_of(job)


LOSSES = (
    *("squared_loss", "absolute_loss", "eps_insensitive_squared_loss", "quantile_loss"),
    *("eps_insensitive_absolute_loss", "huber_loss", "logistic", "hinge_loss", "softmax_loss"),
)


@pytest.mark.parametrize("name", LOSSES)
def test_a_gradient_is_the_slope_of_its_loss(name: str) -> None:
    asked = {
        "loss": name,
        **{"loss_insensitivity": 0.01, "huber_delta": 1.0, "quantile": 0.3, "margin": 1.0},
    }
    loss = loss_of(asked)
    random = np.random.default_rng(0)
    wide = 3 if name == "softmax_loss" else 1
    scores = random.normal(size=(20, wide)) * 2
    targets = np.eye(3)[random.integers(0, 3, 20)] if wide == 3 else random.integers(0, 2, (20, 1))
    _, slope = loss(scores, targets)
    for column in range(wide):
        step = np.zeros_like(scores)
        step[:, column] = 1e-6
        risen = (loss(scores + step, targets)[0] - loss(scores - step, targets)[0]) / 2e-6
        assert slope[:, column] == pytest.approx(risen, abs=1e-4)


def test_a_score_of_nothing_is_nothing() -> None:
    assert f_score(np.array([0.0, 1.0]), np.array([0.0, 1.0]), 1.0).tolist() == [0, 1]


@pytest.mark.parametrize(
    "registry",
    [
        REGISTRY,
        "451049120500.dkr.ecr.cn-northwest-1.amazonaws.com.cn",
        "226302683700.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
        "833128469047.dkr.ecr.us-iso-east-1.c2s.ic.gov",
        "382416733822.dkr-ecr.us-east-1.on.aws",
    ],
)
@pytest.mark.parametrize(
    ("repository", "name"),
    [
        *((f"linear-learner{tag}", "Linear Learner") for tag in ("", ":1", ":latest")),
        ("kmeans:1@sha256:0a", "K-Means"),
        *((f"{name}", "XGBoost") for name in ("xgboost:1", "sagemaker-xgboost:1.7-1")),
        *(("sagemaker-xgboost:3.0-5", "XGBoost"), ("xgboost:latest", "XGBoost")),
        *(("forecasting-deepar:1", "DeepAR"), ("pytorch-training:2.3.0-cpu-py311", None)),
        ("sagemaker-scikit-learn:1.2-1-cpu-py3", None),
    ],
)
def test_images_of_all_regions_are_known(registry: str, repository: str, name: str | None) -> None:
    algorithm = built_in_algorithm(f"{registry}/{repository}")
    assert (algorithm and algorithm.name) == name
