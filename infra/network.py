"""The network: isolated subnets, the endpoints that jobs need, and no way to anywhere else.

There is no internet gateway, no NAT and no peering, so that the route tables decide what can be
reached: the VPC itself, and S3 through its gateway.
"""

from __future__ import annotations

import ipaddress
from functools import cached_property

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.endpoints import GATEWAYS, Reached, endpoint_statements, reached_services
from compilegate.access.jobs import ANY, NO_RESOURCE
from compilegate.access.policy import may
from compilegate.account.roles import aws_repositories, repository_arns
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import outputs, scoped_role, service_principal, stack_options
from compilegate.infra.project import Project
from compilegate.pipelines.deployment import ProjectNetwork

BLOCKS = 3
"""Bits: the VPC is cut into eight, so that zones can be added without moving a subnet."""
HTTPS = ec2.Port.tcp(443)


class NetworkStack(cdk.Stack):
    """VPC, subnets, security groups, endpoints and the log of what flowed."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: the network of its jobs")
        )
        self._project, self._foundation = project, foundation
        declared = project.settings.network
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(declared.cidr),
            max_azs=declared.zone_count,
            create_internet_gateway=False,
            nat_gateways=0,
            # Nothing is in the default group; to empty it the CDK would keep a function.
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Jobs",
                    subnet_type=ec2.SubnetType.PRIVATE_ISOLATED,
                    cidr_mask=ipaddress.IPv4Network(declared.cidr).prefixlen + BLOCKS,
                )
            ],
        )
        self.jobs = ec2.SecurityGroup(
            self,
            "Jobs",
            vpc=self.vpc,
            description="Jobs: they call, and nobody calls them",
            allow_all_outbound=False,
        )
        # S3 answers from public addresses, which change; no route leads to any other.
        self.jobs.add_egress_rule(ec2.Peer.any_ipv4(), HTTPS, "Endpoints and the gateway of S3")
        if any(
            setup.instance_count > 1
            for each in project.workloads
            for setup in each.workload.arms.values()
        ):
            # Hosts that train together choose their ports, and EFA asks for all of them.
            self.jobs.connections.allow_internally(
                ec2.Port.all_traffic(), "Hosts of one job, among each other"
            )
        self._endpoints()
        self._flow_log()
        self.made = ProjectNetwork(
            subnets=[subnet.subnet_id for subnet in self.vpc.isolated_subnets],
            security_group=self.jobs.security_group_id,
        )
        outputs(
            self,
            VpcId=self.vpc.vpc_id,
            SubnetIds=",".join(self.made.subnets),
            SecurityGroupId=self.made.security_group,
        )
        # Even without workloads: the stack of a deleted one may still use them.
        for value in (*self.made.subnets, self.made.security_group):
            self.export_value(value)

    @property
    def availability_zones(self) -> list[str]:
        """Availability zones of the settings, or the account's first ones: the CDK would look
        them up."""
        declared = self._project.settings.network
        return declared.zones or [
            cdk.Fn.select(number, cdk.Fn.get_azs()) for number in range(declared.zone_count)
        ]

    def _endpoints(self) -> None:
        """A gateway or an interface for each service. Names resolve to them, so that programs need
        no other address."""
        declared, reached = self._project.settings.network, self._reached()
        for service in reached_services(declared.endpoints, isolated=declared.isolation):
            id = "To" + "".join(word.capitalize() for word in service.replace("-", ".").split("."))
            endpoint: ec2.GatewayVpcEndpoint | ec2.InterfaceVpcEndpoint
            if service in GATEWAYS:
                endpoint = self.vpc.add_gateway_endpoint(
                    id, service=ec2.GatewayVpcEndpointAwsService(service)
                )
            else:
                endpoint = self.vpc.add_interface_endpoint(
                    id,
                    service=ec2.InterfaceVpcEndpointAwsService(service),
                    private_dns_enabled=True,
                    security_groups=[self._entrance],
                    open=False,
                )
            for statement in endpoint_statements(service, reached):
                endpoint.add_to_policy(iam.PolicyStatement.from_json(statement))

    @cached_property
    def _entrance(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=self.vpc,
            description="Interfaces of AWS services: jobs call them",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(self.jobs, HTTPS, "From jobs")
        return group

    def _reached(self) -> Reached:
        """What all workloads' jobs and models use of the project, and of AWS's own images."""
        project, foundation, arns = self._project, self._foundation, Arns.of(self)
        workloads = [each.workload for each in project.workloads]
        own = foundation.repository_arns(project.images)
        of_aws = repository_arns(arns, aws_repositories(workloads, self.region))
        of_aws += foundation.serving_arns(workloads)
        repositories = [
            *own,
            *sorted({*of_aws} - {*own}),
            *foundation.promoted_arns(workloads),
        ]
        return Reached(
            arns=arns,
            bucket_arns=[foundation.bucket_arn, arns.bucket(foundation.assets_bucket_name)],
            key_arn=foundation.key.key_arn,
            repository_arns=repositories,
        )

    def _flow_log(self) -> None:
        """Who spoke to whom: refused connections say what a program tried to reach."""
        arns, name = Arns.of(self), f"/aws/vpc/{self.stack_name}"
        group = self._foundation.log_group(self, "Flows", name)
        role = scoped_role(
            self,
            "FlowsRole",
            trusted=service_principal(self, "vpc-flow-logs"),
            description="Write the flow log of the network",
            statements=[
                may(
                    "WriteLogs",
                    "logs:CreateLogStream",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                    on=[arns.log_group(name), arns.log_group(f"{name}:log-stream:*")],
                    because="There is a stream for each network interface",
                ),
                may("FindGroup", "logs:DescribeLogGroups", on=[ANY], because=NO_RESOURCE),
            ],
        )
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                logs.LogGroup.from_log_group_name(self, "FlowsGroup", group.ref), role
            ),
            traffic_type=ec2.FlowLogTrafficType.ALL,
            # The longest time in which one connection's packets are gathered, and so the cheapest.
            max_aggregation_interval=ec2.FlowLogMaxAggregationInterval.TEN_MINUTES,
        )
