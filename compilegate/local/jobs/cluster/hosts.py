"""The instances of a job, by the names that its programs know them by. Pure.

With a root of its own, a job finds `algo-1` and so on in /etc/hosts, each at an address of its own
on this machine's loopback interface. Without one, the hosts are called by these addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compilegate.local.errors import StepRequestError
from compilegate.local.requests import RequestReader

INTERFACE = "lo"
_GROUP = "homogeneousCluster"
_MOST = 16


@dataclass(frozen=True)
class Host:
    """One instance."""

    name: str
    group: str
    instance_type: str


ONE_HOST = (Host("algo-1", _GROUP, "local"),)


def read_hosts(resources: RequestReader) -> tuple[Host, ...]:
    """The instances that a ResourceConfig or a ClusterConfig asks for. Raises StepRequestError."""
    groups = resources.sections("InstanceGroups")
    hosts: list[Host] = []
    for section in groups or [resources]:
        count = section.integer_or("InstanceCount", 1)
        if not 1 <= count <= _MOST:
            raise StepRequestError(
                f"InstanceCount is {count}, allowed here: 1 to {_MOST}, for each is a process of "
                "this machine"
            )
        group = section.text("InstanceGroupName") if groups else _GROUP
        kind = section.text_or("InstanceType", "local")
        hosts += [Host("", group, kind)] * count
    if len(hosts) > _MOST:
        raise StepRequestError(f"InstanceGroups have {len(hosts)} instances, allowed here: {_MOST}")
    return tuple(replace(host, name=f"algo-{n}") for n, host in enumerate(hosts, 1))


def reachable(hosts: Sequence[Host], *, own_root: bool) -> tuple[Host, ...]:
    """The hosts under names that their programs can look up."""
    if own_root or len(hosts) == 1:
        return tuple(hosts)
    return tuple(replace(host, name=_address(n)) for n, host in enumerate(hosts))


def hosts_file(machine: str, names: Sequence[str]) -> str:
    """/etc/hosts of a job whose machine has that one."""
    lines = [f"{_address(n)} {name}" for n, name in enumerate(names)]
    return "\n".join([*machine.splitlines(), *lines, ""])


def _address(number: int) -> str:
    return f"127.0.0.{number + 1}"


def members(hosts: Sequence[Host], groups: Collection[str] = ()) -> list[str]:
    """The names of the hosts of these groups; of all of them when none is named."""
    return [host.name for host in hosts if not groups or host.group in groups]


def resource_config(hosts: Sequence[Host], current: Host) -> dict[str, Any]:
    """resourceconfig.json of one host."""
    kinds = {host.group: host.instance_type for host in hosts}
    return {
        "current_host": current.name,
        "current_instance_type": current.instance_type,
        "current_group_name": current.group,
        "hosts": members(hosts),
        "instance_groups": [
            {
                "instance_group_name": group,
                "instance_type": kind,
                "hosts": members(hosts, [group]),
            }
            for group, kind in kinds.items()
        ],
        "network_interface_name": INTERFACE,
    }
