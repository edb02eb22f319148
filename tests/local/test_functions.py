"""Lambda steps: a handler in a process of its own, whose outputs are checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import FunctionSources, RefusedDefinitionError, parse_handler

ARN = "arn:aws:lambda:eu-west-1:111122223333:function:greet"
TEXT = {"OutputName": "text", "OutputType": "String"}


def function(name: str, outputs: Any = (TEXT,), **arguments: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "Lambda",
        "Arguments": arguments,
        "FunctionArn": ARN,
        "OutputParameters": list(outputs),
    }


def handled(bench: Any, code: str, name: str = "lambda_handler") -> FunctionSources:
    file = bench.home.parent / "handler.py"
    file.write_text(dedent(code))
    return FunctionSources(patterns=(("*:function:greet", parse_handler(f"{file}:{name}")),))


GREET = """
def lambda_handler(event, context):
    return {"text": f"hello {event['who']} from {context.function_name}", "more": 1}
"""


@pytest.mark.slow
def test_a_later_step_reads_what_a_function_returned(bench: Any) -> None:
    said = {"Get": "Steps.greet.OutputParameters['text']"}
    result = bench.run(
        function("greet", who="anna"),
        bench.condition(
            "is-it",
            bench.equals(said, "hello anna from greet"),
            then=[bench.processing("yes")],
            otherwise=[bench.fail("no", said)],
        ),
        functions=handled(bench, GREET),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.steps["yes"].status is StepStatus.SUCCEEDED


@pytest.mark.slow
def test_a_function_runs_in_its_own_process_without_this_shells_variables(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-it")
    code = """
    import os, beside

    def handler(event, context):
        assert os.environ["AWS_SECRET_ACCESS_KEY"] != "not-for-it"
        assert context.get_remaining_time_in_millis() > 500_000
        return {"text": beside.WORD + str(os.getppid() != event["runner"])}
    """
    (bench.home.parent / "beside.py").write_text("WORD = 'beside '")

    result = bench.run(
        function("greet", runner=os.getpid()), functions=handled(bench, code, "handler")
    )
    assert result.steps["greet"].properties == {"OutputParameters": {"text": "beside True"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("lambda_handler = lambda e, c: {}", "the function returned no text, but nothing"),
        ("lambda_handler = lambda e, c: {'text': 3}", "returned text = 3, declared as String"),
        ("lambda_handler = lambda e, c: 'hi'", "returned 'hi', expected an object with text"),
        ("lambda_handler = lambda e, c: {'text': float('nan')}", "not JSON compliant"),
        ("lambda_handler = lambda e, c: open", "is not JSON serializable"),
        ("def lambda_handler(e, c): raise ValueError('no greeting')", "no greeting"),
        ("other = 1", "has no function lambda_handler"),
        ("def lambda_handler(e, c): import os; os._exit(3)", "ended with code 3"),
        ("def (", "SyntaxError"),
    ],
)
def test_a_function_that_does_not_keep_its_word_fails_its_step(
    bench: Any, code: str, told: str
) -> None:
    result = bench.run(function("greet"), functions=handled(bench, code))
    assert result.status is ExecutionStatus.FAILED
    assert told in result.steps["greet"].failure.sentence


@pytest.mark.slow
def test_steps_that_do_not_wait_for_a_function_run_beside_it(bench: Any) -> None:
    meeting = bench.home.parent / "met"
    waiting = f"""
    import pathlib, time

    def lambda_handler(event, context):
        while not pathlib.Path({str(meeting)!r}).exists():
            time.sleep(0.01)
        return {{"text": "met"}}
    """
    there = bench.processing("other", f"open({str(meeting)!r}, 'w')")
    result = bench.run(function("greet"), there, functions=handled(bench, waiting))
    assert result.status is ExecutionStatus.SUCCEEDED


@pytest.mark.slow
def test_a_function_is_called_again_when_an_execution_is_resumed(bench: Any) -> None:
    sources = handled(bench, "lambda_handler = lambda e, c: {}")
    steps = [function("greet", who="bob")]
    first = bench.run(*steps, functions=sources)
    assert first.status is ExecutionStatus.FAILED
    again = bench.run(*steps, functions=handled(bench, GREET), resume=first.execution_id)
    assert again.status is ExecutionStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({}, f"no file here stands for the function {ARN}; name the file of its handler"),
        ({"FunctionArn": 3}, "greet: FunctionArn is 3, expected the ARN of a function"),
        (
            {"OutputParameters": [{"OutputName": "a", "OutputType": "Text"}]},
            "OutputType of a is 'Text', allowed are String, Integer, Float, Boolean",
        ),
        ({"OutputParameters": [{}]}, "an output parameter needs OutputName, OutputType"),
        (
            {"FunctionArn": {"Get": "Steps.other.OutputParameters['text']"}},
            "must be known before the execution starts",
        ),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_starts(
    bench: Any, step: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(RefusedDefinitionError) as refused:
        bench.run({**function("greet"), **step}, function("other"))
    assert told in str(refused.value)


def test_an_output_that_is_not_declared_cannot_be_read(bench: Any) -> None:
    reading = bench.fail("end", {"Get": "Steps.greet.OutputParameters['other']"})
    with pytest.raises(RefusedDefinitionError, match=r"greet declares the OutputParameters"):
        bench.run(function("greet"), reading, functions=handled(bench, GREET))


def test_a_handler_that_is_no_file_is_refused(bench: Any) -> None:
    sources = FunctionSources(patterns=(("*", parse_handler("absent.py")),))
    with pytest.raises(RefusedDefinitionError, match=r"is absent\.py here, which is no file"):
        bench.run(function("greet"), functions=sources)


@pytest.mark.parametrize(
    ("text", "file", "name"),
    [
        ("a.py", "a.py", "lambda_handler"),
        ("a.py:go", "a.py", "go"),
        ("/x/b.py", "/x/b.py", "lambda_handler"),
        ("c:/x/b.py", "c:/x/b.py", "lambda_handler"),
    ],
)
def test_a_handler_is_a_file_and_maybe_a_name(text: str, file: str, name: str) -> None:
    assert (parse_handler(text).file, parse_handler(text).function) == (Path(file), name)
