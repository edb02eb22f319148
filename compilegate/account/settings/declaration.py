"""`infra/settings.toml` as types. Everything has a default: an empty file is valid."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from compilegate.declaration_errors import matching
from compilegate.workload.declaration.values import Dollars, Table, Text

LARGEST_BLOCK, SMALLEST_BLOCK = 16, 22
"""Prefix lengths: VPC takes none above /16, and eight subnets of less than /22 hold few jobs."""
PRIVATE_BLOCKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
DEFAULT_ZONES, MOST_ZONES = 2, 6
_RESERVED = ("aws:", "compilegate:", "alias/aws/")
_NAME = "[A-Za-z0-9+=,.@_/-]"
"""What IAM takes in a name or a path."""
_IAM = r"arn:aws[a-z-]*:iam::[0-9]{12}"


def _of_ones_own(name: str) -> str:
    for prefix in _RESERVED:
        if name.lower().startswith(prefix):
            raise ValueError(f"found {name!r}, allowed: one that does not begin with {prefix}")
    return name


def _private_block(text: str) -> str:
    try:
        block = ipaddress.IPv4Network(text)
        private = any(block.subnet_of(ipaddress.IPv4Network(each)) for each in PRIVATE_BLOCKS)
        fits = private and LARGEST_BLOCK <= block.prefixlen <= SMALLEST_BLOCK
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"found {text!r}, allowed: a private block of addresses from /{LARGEST_BLOCK} to "
            f"/{SMALLEST_BLOCK}, as in 10.64.0.0/16"
        )
    return str(ipaddress.IPv4Network(text))


Project = Annotated[
    str, matching(r"^[a-z][a-z0-9]*$", "small letters and digits, a letter first", max_length=20)
]
"""Without a hyphen, so that no project's name and workload read like another project's."""
Account = Annotated[str, matching(r"^[0-9]{12}$", "twelve digits")]
Region = Annotated[str, matching(r"^[a-z]{2}(-[a-z]+)+-[0-9]$", "a region such as us-east-1")]
Zone = Annotated[str, matching(r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$", "a zone such as us-east-1a")]
Block = Annotated[str, AfterValidator(_private_block)]
EndpointService = Annotated[
    str,
    matching(
        r"^[a-z][a-z0-9-]*(\.[a-z0-9-]+)*$", "what stands behind com.amazonaws.REGION., as ecr.api"
    ),
]
VpcId = Annotated[str, matching(r"^vpc-[0-9a-f]+$", "vpc-ID")]
SubnetId = Annotated[str, matching(r"^subnet-[0-9a-f]+$", "subnet-ID")]
SecurityGroupId = Annotated[str, matching(r"^sg-[0-9a-f]+$", "sg-ID")]
KeyArn = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/(mrk-)?[0-9a-f-]{32,36}$",
        "arn:aws:kms:REGION:ACCOUNT:key/ID",
    ),
]
KeyAlias = Annotated[
    str, matching(r"^alias/[A-Za-z0-9/_-]{1,250}$", "alias/NAME"), AfterValidator(_of_ones_own)
]
TopicArn = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$",
        "arn:aws:sns:REGION:ACCOUNT:NAME",
    ),
]
RoleArn = Annotated[str, matching(rf"^{_IAM}:role/{_NAME}+$", "arn:aws:iam::ACCOUNT:role/NAME")]
PrincipalArn = Annotated[
    str, matching(rf"^{_IAM}:(role|user)/{_NAME}+$", "the ARN of a role or a user")
]
ProviderArn = Annotated[
    str, matching(rf"^{_IAM}:oidc-provider/.+$", "arn:aws:iam::ACCOUNT:oidc-provider/HOST")
]
Reader = Annotated[
    str,
    matching(
        r"^arn:(aws[a-z-]*|\*):iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/*-]+$|^o-[a-z0-9]{10,32}$",
        "the ARN of a role, where * stands for any text, or an organisation, o-ID",
    ),
]
Email = Annotated[str, matching(r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "an address such as a@example.com")]
GitHubRepository = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$|^[A-Za-z0-9._-]+@[0-9]+/[A-Za-z0-9._-]+@[0-9]+$",
        "OWNER/NAME, or OWNER@ID/NAME@ID",
    ),
]
TokenText = Annotated[
    str, matching(r"^[A-Za-z0-9._/-]+$", "letters, digits and . _ / -", max_length=250)
]
"""What stands for itself in the subject of a token."""
Workflow = Annotated[
    str, matching(r"^\.github/workflows/[A-Za-z0-9._-]+\.ya?ml$", ".github/workflows/NAME.yml")
]
BucketName = Annotated[
    str, matching(r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", "3 to 63 small letters, digits and hyphens")
]
RepositoryPrefix = Annotated[
    str,
    matching(
        r"^[a-z0-9]+(?:[._/-][a-z0-9]+)*$", "small letters, digits and . _ / -", max_length=200
    ),
]
ScheduleGroup = Annotated[
    str, matching(r"^[0-9a-zA-Z._-]{1,64}$", "at most 64 letters, digits and . _ -")
]
TopicName = Annotated[
    str, matching(r"^[A-Za-z0-9_-]{1,256}$", "at most 256 letters, digits and _ -")
]
IamPath = Annotated[str, matching(rf"^/{_NAME}{{1,200}}/$", "a path between slashes, as in /ml/")]
IamName = Annotated[str, matching(rf"^{_NAME}{{1,128}}$", "the name of a policy")]
Qualifier = Annotated[str, matching(r"^[a-z0-9]{1,10}$", "at most ten small letters and digits")]
Digest = Annotated[str, matching(r"^sha256:[0-9a-f]{64}$", "sha256: and 64 digits")]
TagKey = Annotated[
    str,
    matching(r"^[A-Za-z0-9_.:/=+@ -]{1,128}$", "letters, digits, spaces and _ . : / = + @ -"),
    AfterValidator(_of_ones_own),
]
TagValue = Annotated[
    str, matching(r"^[A-Za-z0-9_.:/=+@ -]{0,250}$", "letters, digits, spaces and _ . : / = + @ -")
]
Days = Annotated[int, Field(ge=1, le=3650)]
LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653]
"""What CloudWatch Logs can keep a log group for."""


class Network(Table):
    """Where jobs run. Without a VPC they run in SageMaker's own."""

    create: bool = False
    """Make a VPC for the jobs, with private subnets and without a way to the internet."""
    cidr: Block = "10.64.0.0/16"
    """Addresses of the VPC that is made: a private block, cut into eight."""
    zones: list[Zone] = Field(default=[], max_length=MOST_ZONES)
    """Its availability zones; by default the account's first two in the region."""
    endpoints: list[EndpointService] | None = Field(default=None, max_length=20)
    """The services that jobs reach there beside S3; by default those that jobs' roles may call."""
    vpc_id: VpcId | None = None
    """That of the subnets; the image builds run there too when it is given."""
    subnets: list[SubnetId] = Field(default=[], max_length=16)
    """Existing subnets for the jobs, with a route to S3, ECR, CloudWatch Logs and KMS."""
    security_groups: list[SecurityGroupId] = Field(default=[], max_length=5)
    """Those of the jobs; `subnets` and `security_groups` go together."""
    isolation: bool = False
    """Cut every job off the network, and so off the model and data set hubs."""

    @property
    def in_vpc(self) -> bool:
        """Whether jobs run in a VPC of the account's own."""
        return self.create or bool(self.subnets)

    @property
    def zone_count(self) -> int:
        """In how many zones the VPC that is made has a subnet."""
        return len(self.zones) or DEFAULT_ZONES

    @model_validator(mode="after")
    def _a_vpc_is_made_or_named(self) -> Self:
        for given, missing in (
            ("subnets", "security_groups"),
            ("security_groups", "subnets"),
            ("vpc_id", "subnets"),
        ):
            if getattr(self, given) and not getattr(self, missing):
                raise ValueError(f"{given} is given and {missing} is not, allowed: both or neither")
        if self.create and self.subnets:
            raise ValueError(
                "create is true and subnets is given, allowed: one of the two, a VPC that is made "
                "or one that is there"
            )
        alone = sorted({"cidr", "zones", "endpoints"} & self.model_fields_set)
        if alone and not self.create:
            raise ValueError(
                f"{', '.join(alone)} is given and create is not true, allowed: with create = true"
            )
        if len(self.zones) == 1 or len(set(self.zones)) != len(self.zones):
            raise ValueError(
                f"zones: found {', '.join(self.zones)}, allowed: none, or two to {MOST_ZONES} "
                "different ones"
            )
        return self


class Notifications(Table):
    """Who hears of a failure, a refused candidate and an inconclusive gate."""

    email: Email | None = None
    """An address that is subscribed to the topic; AWS asks it for confirmation."""
    topic_arn: TopicArn | None = None
    """An existing topic in place of a new one. Its policy must let the account's roles,
    CloudWatch's alarms and Budgets publish, and the policy of its key must let them use it."""

    @model_validator(mode="after")
    def _a_topic_is_made_or_named(self) -> Self:
        if self.email is not None and self.topic_arn is not None:
            raise ValueError(
                "email is given and topic_arn is too, expected one of the two: subscribe the "
                "address to that topic yourself"
            )
        return self


class Bootstrap(Table):
    """What the CDK itself needs in the account; by default one of the project's own."""

    qualifier: Qualifier | None = None
    """That of an existing `cdk bootstrap`, whose execution policies are its owner's concern."""
    boundary: IamName | None = None
    """The permissions boundary of every role, where `qualifier` is given."""

    @model_validator(mode="after")
    def _a_boundary_is_of_whoever_bootstrapped(self) -> Self:
        if self.boundary is not None and self.qualifier is None:
            raise ValueError(
                f"boundary is {self.boundary!r} without qualifier, expected both or neither: "
                "a bootstrap of the project's own has a boundary of its own"
            )
        return self


class GitHub(Table):
    """The repository whose workflows may deploy and submit, by OpenID Connect and without keys."""

    repository: GitHubRepository
    """As GitHub writes it into its tokens: `owner/name`, or with the numbers of both,
    `owner@123456/name@456789`, for repositories made or renamed since July 2026."""
    environment: TokenText = "production"
    """The deployment environment whose jobs may assume the deploying role."""
    branch: TokenText = "main"
    """The only branch whose jobs may deploy."""
    workflow: Workflow = ".github/workflows/delivery.yml"
    """The only workflow whose jobs may deploy."""
    provider_arn: ProviderArn | None = None
    """GitHub's identity provider, where the account has it already: it can have one."""
    session_hours: int = Field(default=1, ge=1, le=12)
    """The longest that a job may be the deploying role, and so follow an execution."""


class Approval(Table):
    """Who approves models. Nobody else can then, and no workload may register one as approved."""

    trusted: list[PrincipalArn] = Field(default=[], max_length=20)
    """Roles and users that may assume the approver's role, which can do nothing but look at models
    and verdicts, approve and reject. Without any there is no such role."""


class Source(Table):
    """The deployment that models come from: the stage before this one."""

    account: Account
    """Its account."""
    region: Region
    """Its region."""
    project: Project
    """Its `project`."""
    bucket: BucketName | None = None
    """Its bucket; by default as it is named without `names.bucket`."""
    repository_prefix: RepositoryPrefix | None = None
    """Its `names.repository_prefix`; by default its project."""


class Images(Table):
    """How images are built, and what they extend."""

    base: dict[str, Text] = Field(default={})
    """Base image URI by image folder, in place of the Deep Learning Container of the catalog."""
    pinned: dict[str, Digest] = Field(default={})
    """Digest by base image, as `images.lock.toml` beside the settings has it; what stands here
    counts more."""
    build_timeout_minutes: int = Field(default=60, ge=5, le=480)
    """How long a build may take."""
    build_machine: Literal["medium", "large", "2xlarge"] = "medium"
    """CodeBuild's. No smaller one has a disk that holds a Deep Learning Container and the layers
    above it."""
    keep: int = Field(default=20, ge=1, le=1000)
    """Images that each repository keeps; older ones are expired. A registered model needs the image
    that it was trained in: keep more than an image has changes during the life of a model."""


class Storage(Table):
    """The bucket and the key."""

    retain: bool = True
    """Keep bucket, key, images and registered models when the stacks are destroyed."""
    key_arn: KeyArn | None = None
    """An existing key in place of a new one; its policy must let CloudWatch Logs and alarms use
    it."""
    bucket: BucketName | None = None
    """An existing bucket with the same key, in this region. Its policy, its lifecycle and its
    reports to EventBridge, without which no delivery starts anything, are its owner's."""
    noncurrent_days: Days = 30
    """How long an overwritten or deleted object can still be brought back."""
    execution_days: Days = 365
    """How long prepared data, gathered evidence and checkpoints are kept: longer than a workload's
    `[cache] expire_after`, or the step cache points to deleted objects."""
    training_days: Days = 365
    """The same for what training jobs wrote. Registered models and verdicts are kept for good."""
    log_days: LogDays = 90
    """How long logs of builds, functions, serving endpoints and the network are kept."""


class Roles(Table):
    """Existing roles in place of those that are made, each for all workloads. `compilegate aws
    roles` prints what they must be allowed."""

    training: RoleArn | None = None
    """For training jobs."""
    processing: RoleArn | None = None
    """For the jobs that prepare, gather and judge."""
    pipeline: RoleArn | None = None
    """For the pipeline."""
    keeper: RoleArn | None = None
    """For the functions that report, start, decide and release."""
    schedule: RoleArn | None = None
    """For EventBridge Scheduler, which starts the pipeline."""
    serving: RoleArn | None = None
    """For endpoints and batch transforms."""


class Scheduling(Table):
    """How a schedule behaves when the service does not answer."""

    retry_attempts: int = Field(default=3, ge=0, le=185)
    """How often a scheduled start is tried again."""
    retry_hours: int = Field(default=1, ge=1, le=24)
    """For how long; then it goes to the dead-letter queue, whose alarm goes off."""


class ProjectBudget(Table):
    """What the whole project may cost: AWS counts by tag and sends messages; it stops nothing."""

    month_usd: Dollars | None = None
    """A budget of AWS for everything with the project's tag, in USD a month."""


class NameOverrides(Table):
    """Names in place of the ones that are made from the project's. Do not change one later:
    CloudFormation would replace what other stacks use."""

    bucket: BucketName | None = None
    """By default `PROJECT-ACCOUNT-REGION`."""
    key_alias: KeyAlias | None = None
    """The alias of the key that is made."""
    repository_prefix: RepositoryPrefix | None = None
    """What the image repositories' names begin with; by default the project."""
    schedule_group: ScheduleGroup | None = None
    """The group of schedules in EventBridge Scheduler."""
    topic: TopicName | None = None
    """The topic of the notifications."""
    path: IamPath | None = None
    """The path in IAM of every role, and of the policies of `make bootstrap`, as in `/ml/`."""


class Settings(Table):
    """The file `infra/settings.toml`."""

    project: Project = "compilegate"
    """Prefix of every name. Two deployments in one account differ in it."""
    account: Account | None = None
    """The only one to deploy to; without it, that of the credentials."""
    region: Region | None = None
    """The only one to deploy to; without it, that of the credentials."""
    workloads: list[Text] = Field(default=[])
    """Those to deploy; without any, all in the folder `workloads/`."""
    network: Network = Network()
    notifications: Notifications = Notifications()
    bootstrap: Bootstrap = Bootstrap()
    github: GitHub | None = None
    approval: Approval = Approval()
    source: Source | None = None
    """Where `compilegate aws promote` takes models from; `from` of a stage says the same."""
    readers: list[Reader] = Field(default=[], max_length=20)
    """Roles of other accounts, or an organisation, that may read models, verdicts and images here
    to promote models; CI's role of a stage whose `from` names this one is among them by itself."""
    images: Images = Images()
    storage: Storage = Storage()
    roles: Roles = Roles()
    scheduling: Scheduling = Scheduling()
    budget: ProjectBudget = ProjectBudget()
    dashboard: bool = True
    """A CloudWatch dashboard, `PROJECT-REGION`, of starts, failures, stops and durations."""
    names: NameOverrides = NameOverrides()
    stages: dict[str, dict[str, Any]] = Field(default={})
    """Stages by name: any key of this file, and `from`, the stage that its models come from
    (deploy.md)."""
    tags: dict[TagKey, TagValue] = Field(default={}, max_length=40)
    """Put on every resource and every job, beside `compilegate:project` and
    `compilegate:workload`."""

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> Self:
        for zone in self.network.zones:
            if self.region is not None and zone[:-1] != self.region:
                raise ValueError(
                    f"network.zones: found {zone!r}, allowed: zones of the region {self.region}"
                )
        return self
