"""`compilegate explain`: each step, what it waits for, what runs it, why it is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.local import (
    ImageSources,
    LocalExecutor,
    RefusedDefinitionError,
    explanation_lines,
)

GOLDEN = Path(__file__).with_name("explained.txt")


def definition(bench: Any) -> str:
    said = {"Get": "Steps.check.Outcome"}
    return bench.definition(
        bench.processing("prepare", outputs=["o"]),
        bench.processing("train", DependsOn=["prepare"]),
        {"Name": "check", "Type": "QualityCheck", "Arguments": {}, "DependsOn": ["train"]},
        {"Name": "beam", "Type": "Teleport", "Arguments": {}},
        bench.condition(
            "good",
            bench.equals(1, 1),
            then=[bench.processing("deploy", arguments=[said])],
            otherwise=[bench.fail("bad", "no <good>")],
            DependsOn=["train"],
        ),
    )


def explained(bench: Any, tmp_path: Path, *options: str) -> Any:
    file = tmp_path / "pipeline.json"
    file.write_text(definition(bench))
    common = ["pipeline", "explain", str(file), "--image", "*=here", "--home", str(bench.home)]
    return CliRunner().invoke(main, [*common, *options], catch_exceptions=False)


def test_the_text_is_the_one_that_was_kept_and_nothing_is_written(
    bench: Any, tmp_path: Path
) -> None:
    result = explained(bench, tmp_path)
    assert result.exit_code == 2
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(result.output, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == result.output
    assert not bench.home.exists()


def test_what_is_left_out_is_not_refused(bench: Any, tmp_path: Path) -> None:
    result = explained(bench, tmp_path, "--skip", "beam", "--command", "check=true")
    assert result.exit_code == 0, result.output
    assert "left out: --skip" in result.output
    assert "the command true" in result.output


def test_a_run_names_all_that_explain_names(bench: Any) -> None:
    bad = bench.processing("train", inputs={"x": "s3://bucket/absent"})
    bad["Arguments"]["Zoo"] = {}
    wrong = json.loads(definition(bench))
    wrong["Parameters"] = [{"Name": "Missing", "Type": "String"}]
    wrong["Steps"][1] = bad
    executor = LocalExecutor(
        home=bench.home,
        definition=json.dumps(wrong),
        images=ImageSources(patterns=(("*", "here"),)),
    )
    explained = explanation_lines(executor.explain("tests", {}))
    with pytest.raises(RefusedDefinitionError) as refused:
        executor.start("tests", {})
    assert len(refused.value.problems) == 6
    assert sum("refused: " in line for line in explained) == 6
    steps = ("deploy: ", "train: ", "check: ", "beam: ")
    for problem in refused.value.problems:
        start = next((step for step in steps if problem.startswith(step)), "")
        assert any(line.endswith(f"refused: {problem[len(start) :]}") for line in explained)
    assert not bench.home.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"Steps": 3}', b"\xff\xfe"])
def test_what_is_no_definition_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    result = CliRunner().invoke(
        main, ["pipeline", "explain", str(file), "--home", str(tmp_path / "home")]
    )
    assert result.exit_code == 2
    assert "refused" in result.output or "cannot be read" in result.output
