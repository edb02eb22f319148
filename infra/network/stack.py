"""The network: private subnets, the endpoints that jobs need, and no way to anywhere else.

There is no internet gateway, no NAT and no peering, so that the route table decides what can be
reached: the VPC itself, and S3 through its gateway.
"""

from __future__ import annotations

import ipaddress

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.access.endpoints import GATEWAYS, Reached, endpoint_policy, reached_services
from compilegate.account.named import (
    aws_repositories,
    repository_arns,
    serving_folders,
    serving_repositories,
)
from compilegate.account.settings import Names
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import log_group, scoped_role, service_principal, stack_options
from compilegate.infra.project import Project
from compilegate.pipelines.deployment import MadeNetwork

BLOCKS = 3
"""Bits: the VPC is cut into eight, so that zones can be added without moving a subnet."""
HTTPS = 443
ANYWHERE = "0.0.0.0/0"
NOTHING = {
    "ipProtocol": "icmp",
    "cidrIp": "255.255.255.255/32",
    "fromPort": 252,
    "toPort": 86,
    "description": "Nothing",
}
"""Without any rule CloudFormation would allow everything."""
TEN_MINUTES = 600
"""How long a flow log gathers one connection's packets: the longest, and so the cheapest."""


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
        self.vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=declared.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=[cdk.CfnTag(key="Name", value=id)],
        )
        routes = ec2.CfnRouteTable(self, "Routes", vpc_id=self.vpc.ref)
        self.subnets = self._subnets(routes)
        self.jobs = ec2.CfnSecurityGroup(
            self,
            "Jobs",
            group_description="Jobs: they call, and nobody calls them",
            vpc_id=self.vpc.ref,
            # S3 answers from public addresses, which change; no route leads to any other.
            security_group_egress=[_https("Endpoints and the gateway of S3", cidr_ip=ANYWHERE)],
        )
        if any(
            setup.instance_count > 1
            for each in project.workloads
            for setup in each.workload.arms.values()
        ):
            self._let_hosts_of_a_job_talk()
        self._endpoints(routes)
        self._flow_log()
        self.made = MadeNetwork(
            subnets=[subnet.ref for subnet in self.subnets],
            security_group=self.jobs.attr_group_id,
        )
        outputs = {
            "VpcId": self.vpc.ref,
            "SubnetIds": ",".join(self.made.subnets),
            "SecurityGroupId": self.made.security_group,
        }
        for name, value in outputs.items():
            cdk.CfnOutput(self, name, value=value)
        # Even without workloads: the stack of a deleted one may still use them.
        for value in (*self.made.subnets, self.made.security_group):
            self.export_value(value)

    def _subnets(self, routes: ec2.CfnRouteTable) -> list[ec2.CfnSubnet]:
        declared = self._project.settings.network
        blocks = ipaddress.IPv4Network(declared.cidr).subnets(prefixlen_diff=BLOCKS)
        subnets = []
        for number, block in zip(range(declared.zone_count), blocks, strict=False):
            subnet = ec2.CfnSubnet(
                self,
                f"Subnet{number + 1}",
                vpc_id=self.vpc.ref,
                cidr_block=str(block),
                availability_zone=declared.zones[number]
                if declared.zones
                else cdk.Fn.select(number, cdk.Fn.get_azs()),
                map_public_ip_on_launch=False,
                tags=[cdk.CfnTag(key="Name", value=f"{self.stack_name}-{number + 1}")],
            )
            ec2.CfnSubnetRouteTableAssociation(
                self, f"Route{number + 1}", route_table_id=routes.ref, subnet_id=subnet.ref
            )
            subnets.append(subnet)
        return subnets

    def _let_hosts_of_a_job_talk(self) -> None:
        """Hosts that train together choose their ports, and EFA asks for all of them."""
        said = "Hosts of one job, among each other"
        group = self.jobs.attr_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "FromHosts",
            group_id=group,
            ip_protocol="-1",
            source_security_group_id=group,
            description=said,
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "ToHosts",
            group_id=group,
            ip_protocol="-1",
            destination_security_group_id=group,
            description=said,
        )

    def _endpoints(self, routes: ec2.CfnRouteTable) -> None:
        """A gateway or an interface for each service. Names resolve to them, so that programs need
        no other address."""
        declared, reached = self._project.settings.network, self._reached()
        services = reached_services(declared.endpoints, isolated=declared.isolation)
        entrance = None
        for service in services:
            if service not in GATEWAYS and entrance is None:
                entrance = self._entrance()
            ec2.CfnVPCEndpoint(
                self,
                "To" + "".join(word.capitalize() for word in service.replace("-", ".").split(".")),
                vpc_id=self.vpc.ref,
                service_name=f"com.amazonaws.{self.region}.{service}",
                vpc_endpoint_type="Gateway" if service in GATEWAYS else "Interface",
                policy_document=endpoint_policy(service, reached),
                route_table_ids=[routes.ref] if service in GATEWAYS else None,
                private_dns_enabled=None if service in GATEWAYS else True,
                subnet_ids=None if service in GATEWAYS else [subnet.ref for subnet in self.subnets],
                security_group_ids=None
                if service in GATEWAYS or entrance is None
                else [entrance.attr_group_id],
            )

    def _entrance(self) -> ec2.CfnSecurityGroup:
        return ec2.CfnSecurityGroup(
            self,
            "Endpoints",
            group_description="Interfaces of AWS services: jobs call them",
            vpc_id=self.vpc.ref,
            security_group_ingress=[
                _https("From jobs", source_security_group_id=self.jobs.attr_group_id)
            ],
            security_group_egress=[NOTHING],
        )

    def _reached(self) -> Reached:
        """What all workloads' jobs and models use of the project, and of AWS's own images."""
        project, foundation = self._project, self._foundation
        arns = Arns.of(self)
        workloads = [each.workload for each in project.workloads]
        of_aws = {
            repository
            for workload in workloads
            for repository in (
                *aws_repositories([workload], self.region),
                *serving_repositories(workload, self.region),
            )
        }
        repositories = [
            *foundation.repository_arns(list(project.images)),
            *sorted(repository_arns(arns, of_aws)),
        ]
        if (source := project.settings.source) is not None:
            # A model that was promoted is served in the image that it was tried in.
            names = Names(project.settings.model_copy(update={"project": source.project}))
            there = Arns(partition=self.partition, region=source.region, account=source.account)
            folders = {folder for each in workloads for folder in serving_folders(each)}
            repositories += [there.repository(names.repository(each)) for each in sorted(folders)]
        return Reached(
            arns=arns,
            bucket_arns=[foundation.bucket_arn, arns.bucket(foundation.assets_bucket_name)],
            key_arn=foundation.key.key_arn,
            repository_arns=repositories,
        )

    def _flow_log(self) -> None:
        """Who spoke to whom: refused connections say what a program tried to reach."""
        name = f"/aws/vpc/{self.stack_name}"
        group = log_group(
            self,
            "Flows",
            name=name,
            key=self._foundation.key,
            days=self._project.settings.storage.log_days,
        )
        arns = Arns.of(self)
        role = scoped_role(
            self,
            "FlowsRole",
            trusted=service_principal(self, "vpc-flow-logs"),
            description="Write the flow log of the network",
            statements=[
                Statement(
                    sid="WriteLogs",
                    actions=[
                        "logs:CreateLogStream",
                        "logs:DescribeLogStreams",
                        "logs:PutLogEvents",
                    ],
                    resources=[
                        arns.log_group(name),
                        arns.log_group(f"{name}:log-stream:*"),
                    ],
                    because="There is a stream for each network interface",
                ),
                Statement(
                    sid="FindGroup",
                    actions=["logs:DescribeLogGroups"],
                    resources=["*"],
                    because="The action does not support permissions for single resources",
                ),
            ],
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=self.vpc.ref,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.ref,
            deliver_logs_permission_arn=role.role_arn,
            max_aggregation_interval=TEN_MINUTES,
        )


def _https(description: str, **other_end: str) -> dict[str, str | int]:
    names = {"cidr_ip": "cidrIp", "source_security_group_id": "sourceSecurityGroupId"}
    return {
        "ipProtocol": "tcp",
        "fromPort": HTTPS,
        "toPort": HTTPS,
        "description": description,
        **{names[key]: value for key, value in other_end.items()},
    }
