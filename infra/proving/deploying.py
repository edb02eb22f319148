"""The proofs that deploy: the stacks, the images, the definition, and an orphan."""

from __future__ import annotations

from compilegate.account.errors import asking
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.commands import NotProvedError
from compilegate.infra.proving.folder import SECOND, WORKLOAD

COMPLETE = "CREATE_COMPLETE"
SAME = "the same as the deployed one"


def deploy(proving: Proving) -> str:
    """The bootstrap, and every stack."""
    proving.commands.bootstrap()
    proving.commands.deploy(proving.names.images_stack)
    names = proving.names
    wanted = {
        names.foundation_stack,
        names.images_stack,
        *(names.workload_stack(name) for name in (WORKLOAD, SECOND)),
    }
    with asking("list the stacks"):
        pages = proving.client("cloudformation").get_paginator("describe_stacks").paginate()
        states = {
            stack["StackName"]: stack["StackStatus"] for page in pages for stack in page["Stacks"]
        }
    missing = [f"{name} is {states.get(name, 'not there')}" for name in sorted(wanted)
               if states.get(name) != COMPLETE]  # fmt: skip
    if missing:
        raise NotProvedError("; ".join(missing))
    return f"{len(wanted)} stacks complete"


def images(proving: Proving) -> str:
    """Every image that is missing is built."""
    printed = proving.commands.compilegate("aws", "images", "--build", "--wait")
    listed = proving.commands.compilegate("aws", "images")
    missing = [line.split()[0] for line in listed.splitlines()[1:] if " missing " in f"{line} "]
    if missing:
        raise NotProvedError(f"not built: {', '.join(missing)}; {printed.splitlines()[-1]}")
    return "every image is there"


def definition(proving: Proving) -> str:
    """What is compiled here is what is deployed."""
    printed = proving.commands.compilegate("aws", "plan", WORKLOAD)
    (line, *_) = [*(line for line in printed.splitlines() if SAME in line), ""]
    if not line:
        raise NotProvedError(f"compilegate aws plan {WORKLOAD} does not say {SAME!r}")
    return line.strip()


def orphan(proving: Proving) -> str:
    """The second workload is no longer declared."""
    stack = proving.names.workload_stack(SECOND)
    proving.folder.forget_second()
    named = proving.commands.module("compilegate.infra.orphans")
    if stack not in named:
        raise NotProvedError(f"{stack} is not named among the orphans")
    removed = proving.commands.module("compilegate.infra.orphans", "--remove", "--force")
    if f"{stack}: removed" not in removed:
        raise NotProvedError(f"make prune did not remove {stack}")
    return f"{stack} was named and removed"


def destroy(proving: Proving) -> str:
    """As people do it, once bucket and registry are empty."""
    proving.commands.destroy()
    return "every stack was removed"
