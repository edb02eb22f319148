"""What a job's program finds of AWS, of the shell's variables, and of data from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.cli.main import main
from compilegate.local import ExecutionError, RefusedDefinitionError, place_data
from compilegate.local.aws.variables import JobVariables

PUT = """
import boto3, sys
s3 = boto3.client("s3")
assert s3.list_objects_v2(Bucket="made")["KeyCount"] == 0
s3.put_object(Bucket=sys.argv[2], Key="by/boto3.txt", Body=b"from a job")
try:
    s3.put_object(Bucket="nobody-" + "named-it", Key="x", Body=b"")
except s3.exceptions.NoSuchBucket as error:
    print(error)
"""
READ = "print(open('/opt/ml/processing/x/boto3.txt').read())"


@pytest.mark.slow
def test_what_a_job_puts_by_boto3_is_a_later_steps_input(bench: Any) -> None:
    writer = bench.processing("write", PUT, arguments=["--bucket", "made"])
    reader = bench.processing("read", READ, inputs={"x": "s3://made/by"}, DependsOn=["write"])
    result = bench.run(writer, reader)
    assert result.status == "Succeeded", result.failure
    assert bench.store.read("s3://made/by/boto3.txt") == b"from a job"
    assert "there is no bucket nobody-named-it" in result.steps["write"].log.read_text()


SHOW = """
import os
for name in sorted(os.environ):
    if name.startswith(("AWS_", "MINE")):
        print(name, os.environ[name])
"""


@pytest.mark.slow
def test_no_variable_of_the_shell_or_the_definition_leads_to_an_account(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.setenv(name, "real-account")
    step = bench.processing("show", SHOW)
    step["Arguments"]["Environment"] = {
        "AWS_SECRET_ACCESS_KEY": "real-account",
        "AWS_ROLE_ARN": "real-account",
        "AWS_DEFAULT_REGION": "ap-south-1",
        "MINE": "the definition's",
    }
    result = bench.run(step, variables={"MINE": "passed on purpose"})
    shown = dict(line.split(" ", 1) for line in result.steps["show"].log.read_text().splitlines())
    assert "real-account" not in shown.values()
    assert shown["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert shown["AWS_EC2_METADATA_DISABLED"] == "true"
    assert shown["AWS_DEFAULT_REGION"] == "ap-south-1"
    assert shown["MINE"] == "passed on purpose"


def test_what_is_passed_on_purpose_wins_over_everything() -> None:
    variables = JobVariables({"AWS_ENDPOINT_URL": "here"}, {"AWS_ENDPOINT_URL": "mine"})
    assert variables.merged({}, {"AWS_ENDPOINT_URL": "theirs"})["AWS_ENDPOINT_URL"] == "mine"
    assert variables.merged({"NO_PROXY": "a"}, {})["NO_PROXY"] == "a,127.0.0.1"


@pytest.mark.slow
def test_a_variable_that_changes_makes_a_step_run_anew(bench: Any) -> None:
    step = bench.processing("cached", "pass", CacheConfig={"Enabled": True, "ExpireAfter": "P1D"})
    first = bench.run(step, variables={"MINE": "1"})
    again = bench.run(step, variables={"MINE": "1"})
    other = bench.run(step, variables={"MINE": "2"})
    assert first.steps["cached"].cached_from is None
    assert again.steps["cached"].cached_from is not None
    assert other.steps["cached"].cached_from is None


def reasons(bench: Any, *steps: Any, **options: Any) -> list[str]:
    with pytest.raises(RefusedDefinitionError) as caught:
        bench.run(*steps, **options)
    return list(caught.value.problems)


def test_a_default_output_hides_no_missing_input(bench: Any) -> None:
    train = bench.training("train", "", request={"OutputDataConfig": {"S3OutputPath": "s3://b/"}})
    absent = bench.processing("read", inputs={"x": "s3://b/absent"}, DependsOn=["train"])
    (reason,) = reasons(bench, train, absent)
    assert reason.startswith("read: s3://b/absent is not in the local store and no step before it")
    assert "--data s3://b/absent=FOLDER" in reason


def test_an_input_that_a_step_makes_without_being_waited_for_is_named(bench: Any) -> None:
    maker = bench.processing("make", outputs=["x"])
    reader = bench.processing("read", inputs={"x": "s3://bucket/make/x"})
    (reason,) = reasons(bench, maker, reader)
    assert "make makes it, but need not have ended when read starts" in reason
    assert reason.endswith("(DependsOn)")


@pytest.mark.slow
def test_a_place_that_is_filled_later_is_not_missing(bench: Any) -> None:
    reader = bench.processing("read", inputs={"x": "s3://b/made/while-it-runs"})
    result = bench.run(reader, later=["s3://b/made"])
    assert "has no objects" in result.steps["read"].failure.sentence


@pytest.mark.slow
def test_a_folder_stands_for_a_prefix_and_is_never_written_to(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    (folder / "boto3.txt").write_text("by hand", encoding="utf-8")
    (folder / "sub" / "b").write_text("b", encoding="utf-8")
    assert place_data(bench.store, "s3://data/in", folder) == 2
    result = bench.run(bench.processing("read", READ, inputs={"x": "s3://data/in/"}))
    assert result.steps["read"].log.read_text() == "by hand\n"
    (tmp_path / "new").write_text("new", encoding="utf-8")
    bench.store.upload(tmp_path / "new", "s3://data/in/boto3.txt")
    assert (folder / "boto3.txt").read_text(encoding="utf-8") == "by hand"
    with pytest.raises(ExecutionError, match="is an object that was stored there"):
        place_data(bench.store, "s3://data/in", folder)


def test_a_file_that_is_gone_from_the_folder_is_gone_from_the_store(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a").write_text("a", encoding="utf-8")
    (tmp_path / "f" / "b").write_text("b", encoding="utf-8")
    place_data(bench.store, "s3://data", tmp_path / "f")
    (tmp_path / "f" / "a").unlink()
    place_data(bench.store, "s3://data", tmp_path / "f")
    assert bench.store.fingerprints("s3://data/a") == []
    assert bench.store.exists("s3://data/b")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "bucket=folder"], "--data: found 'bucket=folder', allowed: s3://BUCKET"),
        (["--data", "s3://b=nowhere"], "--data: nowhere holds nothing"),
        (["--env", "1X=2"], "--env: found '1X=2', allowed: NAME=VALUE"),
        (["--env", "SURELY_UNSET"], "--env: SURELY_UNSET has no value in this shell"),
    ],
)
def test_a_malformed_option_is_refused(
    bench: Any, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    definition = tmp_path / "d.json"
    definition.write_text(bench.definition(bench.processing("p")), encoding="utf-8")
    home = str(tmp_path / "h")
    asked = ["pipeline", "run", str(definition), "--home", home, "--image", "*=here"]
    found = CliRunner().invoke(main, [*asked, *arguments])
    assert found.exit_code == 2
    assert sentence in " ".join(found.output.split())
