"""What rests on AWS's documentation until a real account has shown it. Pure.

`make prove-aws` goes through this list, and the table in docs/aws.md is this list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One of them, with the command that proves it and what that costs."""

    key: str
    says: str
    proved_by: str
    """The command, as somebody types it for another project."""
    usd: float
    """In `us-east-1`, rounded up."""
    minutes: int = 0
    """How long the proof takes at most, mostly waiting."""
    after: tuple[str, ...] = ()
    """Keys of the claims without which there is nothing to look at."""
    not_played: str = ""
    """Why the tests cannot play it against their stand-in for AWS; empty where they do."""
    by_hand: str = ""
    """What it needs that one account and one command have not; empty where `make prove-aws` does
    it."""


JOBS = "jobs do not run there"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="deploy",
        says="the bootstrap's two policies are enough for CloudFormation, and the boundary for "
        "every role",
        proved_by='`make bootstrap && make deploy FLAGS="--require-approval never"`',
        usd=0.05,
        minutes=15,
    ),
    Claim(
        key="images",
        says="images build in a new account",
        proved_by="`compilegate aws images --build --wait`",
        usd=0.60,
        minutes=40,
        after=("deploy",),
    ),
    Claim(
        key="definition",
        says="the definition is the deployed one, to the byte",
        proved_by='`compilegate aws plan NAME` after a deployment: "the same as the deployed one"',
        usd=0,
        after=("deploy",),
    ),
    Claim(
        key="jobs",
        says="jobs may do all that they need, with their roles and the key",
        proved_by="`compilegate aws submit NAME --wait`",
        usd=0.15,
        minutes=45,
        after=("images",),
        not_played=JOBS,
    ),
    Claim(
        key="cache",
        says="the step cache is hit when nothing changed",
        proved_by="`compilegate aws submit NAME --wait` again; `compilegate aws plan NAME` says "
        "what was expected",
        usd=0.05,
        minutes=15,
        after=("jobs",),
        not_played=JOBS,
    ),
    Claim(
        key="isolation",
        says="a job of one workload cannot read another's objects",
        proved_by="`aws iam simulate-principal-policy` with the role of one and an object of the "
        "other; a refusal by S3 itself in a job is the proof",
        usd=0,
        after=("deploy",),
        not_played="moto has no policy simulator; the tests ask an engine of their own",
    ),
    Claim(
        key="package",
        says="a registered model can be deployed from its package",
        proved_by="`aws sagemaker create-model --model-name x --execution-role-arn ROLE "
        "--containers ModelPackageName=ARN`",
        usd=0,
        after=("jobs",),
    ),
    Claim(
        key="approval",
        says="an approval brings up the endpoint",
        proved_by="`compilegate models approve GROUP/VERSION --aws`, then `aws sagemaker "
        "describe-endpoint --endpoint-name PROJECT-NAME`",
        usd=0.05,
        minutes=15,
        after=("jobs",),
    ),
    Claim(
        key="answers",
        says="the endpoint answers requests with the handler's scores",
        proved_by="`aws sagemaker-runtime invoke-endpoint --endpoint-name PROJECT-NAME "
        '--content-type application/json --body \'{"inputs": ["a text"]}\' answer.json`',
        usd=0.01,
        after=("approval",),
        not_played="its endpoints have no model",
    ),
    Claim(
        key="rejection",
        says="rejecting a model brings the one before it back",
        proved_by='`compilegate models reject GROUP/VERSION --aws --reason "a trial"` after '
        "two were approved",
        usd=0.02,
        minutes=20,
        after=("approval", "cache"),
    ),
    Claim(
        key="rollback",
        says="an alarm takes a new model back",
        proved_by="`aws cloudwatch set-alarm-state` with `ALARM` for `PROJECT-NAME-errors`, when a "
        "new model was just deployed",
        usd=0.02,
        minutes=20,
        after=("rejection",),
    ),
    Claim(
        key="topic",
        says="logs, alarms and the topic use the key",
        proved_by="`aws cloudwatch set-alarm-state` with `ALARM` for `PROJECT-NAME-failed`; `aws "
        "cloudwatch describe-alarm-history` says that the action succeeded, and the mail comes",
        usd=0,
        minutes=5,
        after=("deploy",),
        not_played="moto's alarms call nobody and have no history",
    ),
    Claim(
        key="delivery",
        says="a delivery starts an execution on it",
        proved_by="`aws s3 cp` of `train.csv` and `validation.csv` to a folder below the prefix",
        usd=0.05,
        minutes=10,
        after=("deploy",),
    ),
    Claim(
        key="overlap",
        says="two starts do not overlap",
        proved_by="two `aws sagemaker start-pipeline-execution` in a row: the second is stopped",
        usd=0.05,
        minutes=10,
        after=("deploy",),
    ),
    Claim(
        key="schedule",
        says="a schedule starts the pipeline",
        proved_by="a `[schedule] expression` that is due in twenty minutes, `make deploy`; then "
        "`compilegate aws watch NAME`",
        usd=0.05,
        minutes=40,
        after=("deploy",),
    ),
    Claim(
        key="month",
        says="a start that the month does not allow is stopped before a job began",
        proved_by="`[budget] month_usd` a cent above one execution's most, `make deploy`, and `aws "
        "sagemaker start-pipeline-execution --pipeline-name PROJECT-NAME` after an execution of "
        "this month that had a job",
        usd=0.05,
        minutes=15,
        after=("cache",),
    ),
    Claim(
        key="orphan",
        says="an orphan is named and removed",
        proved_by="delete `workloads/NAME.toml`, `make diff`, `make prune`",
        usd=0,
        minutes=10,
        after=("deploy",),
    ),
    Claim(
        key="destroy",
        says="every stack can be removed, once bucket and registry are empty",
        proved_by="`make destroy FLAGS=--force` with `retain = false`",
        usd=0,
        minutes=20,
    ),
    Claim(
        key="nothing-left",
        says="nothing is left",
        proved_by="`aws resourcegroupstaggingapi get-resources --tag-filters "
        "Key=compilegate:project,Values=PROJECT`",
        usd=0,
        minutes=5,
    ),
    Claim(
        key="tags",
        says="AWS Budgets counts by the tags",
        proved_by="the budgets page a day after the tags were activated",
        usd=0,
        not_played="moto counts no costs",
        by_hand="a day",
    ),
    Claim(
        key="promotion",
        says="a model that was approved in one account comes to the next",
        proved_by="`COMPILEGATE_STAGE=prod compilegate aws promote GROUP/VERSION`, with two "
        "accounts",
        usd=0,
        by_hand="a second account",
    ),
    Claim(
        key="network",
        says="jobs find all that they need in a VPC without internet",
        proved_by="`[network] create = true`, `make bootstrap`, `make deploy`, `compilegate aws "
        "submit NAME --wait`; then again with `endpoints = []`",
        usd=0.30,
        not_played=JOBS,
        by_hand="a second deployment, with endpoints that cost by the hour",
    ),
    Claim(
        key="terraform",
        says="the Terraform file is what its provider takes",
        proved_by="`terraform plan` beside the files of [other-tools.md](other-tools.md)",
        usd=0,
        not_played="Terraform is not installed",
        by_hand="Terraform",
    ),
)

REMOVAL = ("destroy", "nothing-left")
"""What is done whatever came before."""
COLUMNS = ("claim", "proved by", "costs about", "`make prove-aws`", "tried in the tests")


def proven_here(claims: Iterable[Claim] = CLAIMS) -> list[Claim]:
    """Those that `make prove-aws` tries."""
    return [claim for claim in claims if not claim.by_hand]


def cost(claims: Iterable[Claim]) -> float:
    """US dollars together."""
    return round(sum(claim.usd for claim in claims), 2)


def hours(claims: Iterable[Claim]) -> float:
    return sum(claim.minutes for claim in claims) / 60


def markdown(claims: Sequence[Claim] = CLAIMS) -> str:
    """The table of docs/aws.md."""
    lines = [_row(COLUMNS), "|---|---|--:|---|---|"]
    for claim in claims:
        where = f"by hand: needs {claim.by_hand}" if claim.by_hand else "yes"
        tried = f"no: {claim.not_played}" if claim.not_played else "yes"
        usd = f"{claim.usd:.2f} USD" if claim.usd else "0"
        lines.append(_row((claim.says, claim.proved_by, usd, where, tried)))
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
