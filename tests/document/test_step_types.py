"""The table of step types agrees with the service's API, and whoever runs steps knows all of it."""

from __future__ import annotations

import botocore.session
import pytest

from compilegate.document.step_types import STEP_TYPES
from compilegate.local.checks import JOB_REQUESTS
from compilegate.local.run import INLINE_STEPS

SERVICE = botocore.session.get_session().get_service_model("sagemaker")
CALLING = [name for name, known in STEP_TYPES.items() if known.operation is not None]


def test_the_local_runner_has_one_way_to_run_each_type_of_step() -> None:
    """A type without one would be refused before anything starts; one with two would fall into
    the wrong one."""
    others = [name for name, known in STEP_TYPES.items() if known.function or known.by_command]
    assert sorted([*JOB_REQUESTS, *INLINE_STEPS, *others]) == sorted(STEP_TYPES)
    assert set(JOB_REQUESTS) == {name for name, known in STEP_TYPES.items() if known.job_name}


@pytest.mark.parametrize("name", CALLING)
def test_what_is_said_of_a_request_and_its_answer_is_in_the_service_s_shapes(name: str) -> None:
    known = STEP_TYPES[name]
    request = SERVICE.operation_model(known.operation).input_shape
    answer = SERVICE.shape_for(known.description)
    assert set(known.cache_key) <= request.members.keys()
    assert set(known.properties) <= answer.members.keys()
    assert known.job_name is None or known.job_name in request.members.keys() & set(
        known.properties
    )
    for member in known.resources:
        request = request.members[member]
    assert not known.resources or "InstanceType" in request.members
