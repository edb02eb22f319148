"""What the account grants for programs of one's own."""

from __future__ import annotations

from compilegate.access import Arns
from compilegate.access.jobs import Place, processing_statements
from compilegate.pipelines.requests.images import image_folders_of
from compilegate.workload import find_workload, read_workload
from tests.infra.assembly import PROJECT

PLACE = Place(
    workload="trees",
    arns=Arns(partition="aws", region="us-east-1", account="123456789012"),
    bucket_arn="arn:aws:s3:::bucket",
    assets_arn="arn:aws:s3:::assets",
    code_prefix="code/",
    key_arn="arn:aws:kms:us-east-1:123456789012:key/a",
    repository_arns=["arn:aws:ecr:us-east-1:123456789012:repository/a"],
    in_vpc=False,
)


def test_a_workload_needs_the_images_of_its_arms_of_its_programs_and_of_the_gate() -> None:
    news = read_workload(find_workload("news-topics", PROJECT / "workloads"))
    assert image_folders_of(news) == {
        "training": "arms.baseline.image",
        "gate": "step Gate",
    }


def test_processing_jobs_write_what_stays_and_what_is_known_of_the_registered_model() -> None:
    written = [
        resource
        for statement in processing_statements(PLACE, deliveries=[])
        if "s3:PutObject" in statement.actions
        for resource in statement.resources
    ]
    place = "arn:aws:s3:::bucket/compilegate/workloads/trees"
    kept = ("executions", "models", "verdicts", "registered")
    assert written == [f"{place}/{folder}/*" for folder in kept]
