"""What may start executions by itself: schedules and new data, as a workload declares them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from compilegate.cli.validate import schedule_sentence
from compilegate.workload import Schedule, WorkloadError, read_workload

TOPICS = (Path(__file__).parents[1] / "pipelines" / "topics.toml").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
WEEKLY = '[schedule]\nexpression = "cron(0 6 ? * MON *)"\n'


def written(folder: Path, tables: str) -> Path:
    path = folder / "topics.toml"
    path.write_text(f"{TOPICS}\n{tables}", encoding="utf-8")
    return path


def test_a_schedule_is_off_and_in_utc_until_something_else_is_said(tmp_path: Path) -> None:
    schedule = read_workload(written(tmp_path, WEEKLY)).schedule
    assert schedule == Schedule(expression="cron(0 6 ? * MON *)", timezone="UTC", enabled=False)


def test_without_tables_of_their_own_nothing_starts_by_itself(tmp_path: Path) -> None:
    workload = read_workload(written(tmp_path, ""))
    assert (workload.schedule, workload.new_data) == (None, None)


def test_a_schedule_may_give_the_pipeline_s_parameters_values(tmp_path: Path) -> None:
    tables = (
        f"{WEEKLY}[schedule.parameters]\n"
        'ModelApprovalStatus = "Approved"\nMaxRuntimeInSeconds = 3600\n'
    )
    schedule = read_workload(written(tmp_path, tables)).schedule
    assert schedule is not None
    assert schedule.parameters == {"ModelApprovalStatus": "Approved", "MaxRuntimeInSeconds": 3600}


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            '[schedule]\nexpression = "cron(0 6 * * * *)"',
            "schedule.expression: found '*' in the day-of-month field and '*' in the day-of-week "
            "field, allowed: '?' in one of them",
        ),
        (
            f'{WEEKLY}timezone = "Europe/Pariss"',
            "schedule.timezone: found 'Europe/Pariss' (did you mean 'Europe/Paris'?), allowed: the "
            "name of an IANA time zone, as in 'UTC' or 'Europe/Paris'",
        ),
        (
            f'{WEEKLY}[schedule.parameters]\nApproval = "Approved"',
            "schedule.parameters: Approval is not a parameter of the pipeline, allowed: Data, "
            "ModelApprovalStatus, TrainingInstanceType, MaxRuntimeInSeconds",
        ),
        (
            f'{WEEKLY}[schedule.parameters]\nMaxRuntimeInSeconds = "3600"',
            "schedule.parameters: MaxRuntimeInSeconds is '3600', allowed: a whole number from 60 "
            "to 2419200",
        ),
        (f"{WEEKLY}on = true", "schedule.on is not a known key"),
        (
            '[new_data]\nprefix = "compilegate/data/"',
            "new_data.prefix: found 'compilegate/data/', allowed: a prefix outside "
            "'compilegate/', where every execution writes and so would start the next",
        ),
        (
            '[new_data]\nprefix = "comp"',
            "new_data.prefix: found 'comp', allowed: a prefix outside 'compilegate/', where",
        ),
        ('[new_data]\nprefix = ""', "new_data.prefix: found '', allowed: a string that matches"),
        ('[new_data]\nprefix = "*"', "new_data.prefix: found '*', allowed: a string that matches"),
        ('[new_data]\nprefix = "/in"', "new_data.prefix: found '/in', allowed: a string that"),
    ],
)
def test_what_cannot_start_anything_is_refused(tmp_path: Path, tables: str, sentence: str) -> None:
    path = written(tmp_path, tables)
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert str(caught.value).startswith(f"{path}: {sentence}")


def test_a_scheduled_runtime_longer_than_a_spot_arm_waits_is_refused(tmp_path: Path) -> None:
    spot = TOPICS.replace(
        "[arms.compiled]", "[arms.compiled]\nspot = true\nmax_wait_seconds = 90000"
    )
    path = written(tmp_path, "")
    path.write_text(f"{spot}\n{WEEKLY}[schedule.parameters]\nMaxRuntimeInSeconds = 90001\n")
    with pytest.raises(
        WorkloadError, match="allowed: 90000 or less, which is the wait of the spot arm compiled"
    ):
        read_workload(path)


def test_new_data_starts_executions_when_it_is_turned_on(tmp_path: Path) -> None:
    tables = '[new_data]\nprefix = "incoming/topics/"\nenabled = true'
    new_data = read_workload(written(tmp_path, tables)).new_data
    assert new_data is not None
    assert (new_data.prefix, new_data.enabled) == ("incoming/topics/", True)


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (
            Schedule(expression="cron(0 6 ? * MON *)", timezone="Europe/Paris", enabled=True),
            "schedule: cron(0 6 ? * MON *) in Europe/Paris starts next at Mon 2026-11-23 06:00 "
            "CET, Mon 2026-11-30 06:00 CET, Mon 2026-12-07 06:00 CET",
        ),
        (
            Schedule(expression="rate(7 days)"),
            "schedule: rate(7 days) in UTC if deployed now, starts at Fri 2026-11-27 13:00 UTC, "
            "Fri 2026-12-04 13:00 UTC, Fri 2026-12-11 13:00 UTC; it is disabled",
        ),
        (
            Schedule(expression="cron(0 6 30 2 ? *)", enabled=True),
            "schedule: cron(0 6 30 2 ? *) in UTC will not start again",
        ),
    ],
)
def test_validate_says_when_a_schedule_starts_next(schedule: Schedule, sentence: str) -> None:
    assert schedule_sentence(schedule, NOW) == sentence
