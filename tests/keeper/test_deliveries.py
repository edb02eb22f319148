"""What is delivered, and what is started for it."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.infra.keeper import subscriptions
from compilegate.infra.keeper.deliveries import DeliveryError, fingerprint
from tests.keeper.account import BUCKET, INCOMING, OWN, Account

pytestmark = pytest.mark.slow
MONDAY, TUESDAY, WEDNESDAY = (f"{INCOMING}2026-11-{day}" for day in (16, 17, 18))


@pytest.fixture(autouse=True)
def _executions_run(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEW_DATA_PREFIX", INCOMING)
    account.aws.script("topics", [{"status": "Executing"}])


def uri(folder: str) -> str:
    # With its slash: SageMaker takes a URI for the beginning of keys, of other folders' too.
    return f"s3://{BUCKET}/{folder}/"


def deliver(account: Account, key: str, content: str = "text,label\n") -> dict[str, Any]:
    """Write an object and deliver its event; returns what came of it."""
    account.write(key, content)
    detail = {"bucket": {"name": BUCKET}, "object": {"key": key}}
    return account.event(subscriptions.OBJECT, "aws.s3", detail)


def deliver_whole(account: Account, folder: str, content: str = "monday") -> dict[str, Any]:
    """Both files of a delivery; returns what came of the second."""
    deliver(account, f"{folder}/train.csv", content)
    return deliver(account, f"{folder}/validation.csv", content)


def end(account: Account, number: int) -> dict[str, Any]:
    """The number-th execution is stopped, and its event comes."""
    arn = [*account.executions()][number - 1]
    if account.executions()[arn] == "Executing":
        account.stop(arn)
    return account.becomes(arn, "Stopped")


def trained_on(account: Account) -> list[str]:
    return [given["Data"] for given in account.starts() if given]


def test_a_whole_delivery_starts_one_execution(account: Account) -> None:
    for name in ("README.md", "train", "training.csv", "train.csv/part-0", "nested/train.csv"):
        deliver(account, f"{MONDAY}/{name}")
    assert "incomplete" in deliver(account, f"{MONDAY}/train.csv")
    assert account.statuses() == []
    # S3 says forbidden of what is not there, to a role that may list some prefixes alone: here
    # after a list and a fact.
    account.aws.fail("S3:GET", "AccessDenied", status=403, after=2, times=1)
    assert "started" in deliver(account, f"{MONDAY}/validation.csv")
    for name in ("validation", "train"):
        deliver(account, f"{MONDAY}/{name}.csv")
    assert trained_on(account) == [uri(MONDAY)]
    # Which a person stops, and which stays stopped.
    assert end(account, 1)["waiting"] == []
    outcome = deliver_whole(account, TUESDAY, "text,label\n")
    assert (outcome["same"], outcome["as"]) == (uri(TUESDAY), uri(MONDAY))
    assert len(account.statuses()) == 1
    assert account.subjects() == ["[info] topics: the same data came twice"]


def test_deliveries_that_come_during_an_execution_are_trained_on_after_it(account: Account) -> None:
    account.start()  # by somebody else
    for folder in (MONDAY, WEDNESDAY, TUESDAY):
        assert "started" not in deliver_whole(account, folder, folder)
    for number in (1, 2, 3):
        assert "started" in end(account, number)
    # Within one second, S3 does not say which of them came first.
    assert set(trained_on(account)) == {uri(folder) for folder in (MONDAY, TUESDAY, WEDNESDAY)}
    assert end(account, 4)["waiting"] == []
    assert len(account.statuses()) == 4


def test_a_delivery_whose_execution_gave_way_waits_again(account: Account) -> None:
    """A schedule may start in the moment between looking and starting."""
    account.start({"status": "Executing", "unlisted": True})
    account.aws.script("topics", [{"status": "Executing"}])
    deliver_whole(account, MONDAY)
    (given_way,) = account.executions()
    account.write(f"{OWN}/notices/{given_way.rpartition('/')[2]}/overlap-0.json")
    end(account, 1)
    assert trained_on(account) == [uri(MONDAY)] * 2
    assert account.statuses() == ["Stopped", "Executing"]


def test_content_is_known_by_a_checksum_where_s3_has_one() -> None:
    """An object that a key of KMS encrypts gets another ETag each time it is uploaded."""
    first = {"ContentLength": 7, "ETag": '"1"', "ChecksumCRC64NVME": "abc="}
    assert fingerprint(first) == fingerprint({**first, "ETag": '"2"'})
    assert fingerprint(first) != fingerprint({**first, "ChecksumCRC64NVME": "abd="})
    without = {"ContentLength": 7, "ETag": '"1"'}
    assert fingerprint(without) != fingerprint({**without, "ETag": '"2"'})


@pytest.mark.parametrize(
    ("before", "key", "refused"),
    [
        ([f"{MONDAY}/train.csv", f"{MONDAY}/validation.csv"], f"{MONDAY}/train.csv", "other files"),
        ([], f"{INCOMING}train.csv", "is not in a folder of its own"),
        ([f"{MONDAY}/train.csv"], f"{MONDAY}/train.parquet", r"holds 2 files train\.\*"),
    ],
)
def test_an_invalid_delivery_is_refused(
    account: Account, before: list[str], key: str, refused: str
) -> None:
    for each in before:
        deliver(account, each)
    with pytest.raises(DeliveryError, match=refused):
        deliver(account, key, "corrected")
    assert len(account.statuses()) == (len(before) == 2)
