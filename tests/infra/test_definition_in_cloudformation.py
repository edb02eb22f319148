"""The definition on its way through CloudFormation: compiled once, completed there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infra.assembly import PROJECT, Assembly

pytestmark = pytest.mark.slow

WORKLOAD = "compilegate-workload-topics"
FOLDER = Path(__file__).with_name("project")


def test_text_that_looks_like_a_variable_stays_text() -> None:
    from aws_cdk import App, CfnOutput, Stack  # noqa: PLC0415

    from compilegate.infra.definition import completed_by_cloudformation  # noqa: PLC0415

    stack = Stack(App(), "Sub")
    token = completed_by_cloudformation(
        '{"Regex":"${HOME}","Role":"stand-in","Again":"stand-in"}',
        placeholders={"role_arn": "stand-in"},
        values={"role_arn": stack.stack_id},
    )
    CfnOutput(stack, "Text", value=token)
    text, variables = stack.resolve(token)["Fn::Sub"]
    assert text == '{"Regex":"${!HOME}","Role":"${RoleArn}","Again":"${RoleArn}"}'
    assert variables == {"RoleArn": {"Ref": "AWS::StackId"}}


def test_the_largest_experiment_fits_into_a_template() -> None:
    """Of as many training jobs as one execution can have."""
    from compilegate.account.plan.quotas import LARGEST_DEFINITION  # noqa: PLC0415
    from compilegate.infra.definition import (  # noqa: PLC0415
        DefinitionSizeError,
        check_size,
        incomplete_definition,
        size_in_template,
    )
    from compilegate.infra.project import read_project  # noqa: PLC0415

    project = read_project(FOLDER)
    declared = next(one for one in project.workloads if one.workload.name == "topics")
    arms = declared.workload.arms
    many = {"baseline": arms["baseline"]} | {f"arm-{n}": arms["compiled"] for n in range(1, 7)}
    workload = declared.workload.model_copy(update={"arms": many, "seeds": [*range(1, 10)]})
    text = incomplete_definition(project, replace(declared, workload=workload)).text
    assert text.count('"Type":"Training"') == 63
    assert size_in_template(text) < LARGEST_DEFINITION / 2
    with pytest.raises(DefinitionSizeError, match=r"workloads/larger\.toml: .*fewer arms or seeds"):
        check_size("larger", text * 4)


SYNTH = """
import sys
from pathlib import Path
from compilegate.infra.project import read_project
from compilegate.infra.definition import incomplete_definition
project = read_project(Path(sys.argv[1]))
text = incomplete_definition(project, project.workloads[0], project.settings.region).text
print("sagemaker" in sys.modules, '"Name":"Train-compiled-8"' in text)
"""


def test_a_definition_that_is_known_costs_no_import_of_the_sdk(assembly: Assembly) -> None:
    """The synth of these tests has compiled it, and another process finds it."""
    program = [sys.executable, "-c", SYNTH, str(FOLDER)]
    assert subprocess.check_output(program, cwd=PROJECT, text=True) == "False True\n"
