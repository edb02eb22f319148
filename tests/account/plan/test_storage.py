"""What a workload keeps in the bucket, as `plan` tells it."""

from __future__ import annotations

import pytest

from compilegate.account.plan.cost import Storage, read_storage, usd_a_month
from compilegate.account.session import open_session
from tests.account.deployed import BUCKET, Deployed

OURS = "compilegate/workloads/topics"


@pytest.mark.slow
def test_all_that_belongs_to_the_workload_is_counted_and_no_other_s(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in deployed.server.environment.items():
        monkeypatch.setenv(name, value)
    before = read_storage(open_session("us-east-1"), BUCKET, "topics", 0).bytes_of
    deployed.put_object(f"{OURS}/training/job/output/model.tar.gz", "x" * 100)
    deployed.put_object(f"{OURS}/models/1/model.tar.gz", "x" * 40)
    deployed.put_object(f"{OURS}/verdicts/1/verdict.json", "x" * 2)
    deployed.put_object("compilegate/data/topics/0/train.csv", "x" * 7)
    deployed.put_object("compilegate/workloads/topics-two/models/1/model.tar.gz", "x" * 999)
    found = read_storage(open_session("us-east-1"), BUCKET, "topics", 52)
    more = {
        kind: size - before[kind] for kind, size in found.bytes_of.items() if size != before[kind]
    }
    assert more == {"training": 100, "models": 40, "verdicts": 2, "data": 7}
    assert (found.newest_model, found.growth) == (40, 40 * 52)


def test_what_expires_is_not_called_permanent() -> None:
    storage = Storage({"models": 10, "verdicts": 1, "training": 500, "data": 4}, 10, 0)
    assert (storage.total, storage.permanent, storage.growth) == (515, 15, 0)


def test_a_year_of_weekly_models_costs_what_s3_asks() -> None:
    size = 440 * 10**6
    assert usd_a_month(size * 52) == pytest.approx(0.49, abs=0.01)
