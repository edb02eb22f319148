"""Starts the builds of a project's images, waits for room in the quota, and tells of failures.

A project's first deployment asks for all of its images at once. The account's quota says how many
builds may run, and five times as many may queue; in a new account both can be none, and then a
start is refused. Whatever is refused is asked for again by a rule that is switched on while
something waits, and off when nothing does.

Lambda calls `builder.handler` with an event of CloudFormation, of CodeBuild or of that rule.
"""

from builder.entry import handler

__all__ = ["handler"]
