"""Records in an account: a DynamoDB table whose partition key is the workload.

    PART              what it holds
    head              where the workload stands, and the digest of its decisions
    0001/000012       the twelfth decision of the first record

Head and decision are written in one transaction, on the condition that the head is the one that was
read. So executions that overlap lose nothing. A decision has an item of its own because an item
holds 400 KB, which a year of daily decisions outgrows; a parameter of SSM holds 8 KB and has no
conditional write. A record that is damaged is left as it is, and a new one begins in the next
generation: 0002/000001.

The client is given, so this is the standard library alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.posture.errors import ConflictError
from compilegate.posture.records import digest_of

_HEAD = "head"
_CONFLICTS = ("ConditionalCheckFailed", "TransactionConflict", "DuplicateItem")
_AT_ONCE = 100
"""Items that one transaction takes."""


@dataclass(frozen=True)
class DynamoRecords:
    """Records in one table, through a boto3 client of DynamoDB."""

    client: Any
    table: str

    def read(self, workload: str) -> tuple[str | None, str]:
        """The text, put together from its items; its tag is the head as it was."""
        head = self.client.get_item(
            TableName=self.table, Key=_key(workload, _HEAD), ConsistentRead=True
        ).get("Item")
        if head is None:
            return None, ""
        said = head.get("document", {}).get("S", "")
        tag = json.dumps([_number(head, "generation"), said])
        document = _object(said)
        if document is None:
            return said or "an item without a document", tag
        # What was added since the head was read belongs to a later head.
        revision = document.get("revision")
        last = revision if isinstance(revision, int) else 0
        parts = self._decisions(workload, _number(head, "generation"), last)
        return json.dumps({**document, "decisions": list(parts)}, indent=1) + "\n", tag

    def write(self, workload: str, text: str, *, tag: str) -> None:
        """Add what the text has and the table lacks, where the head is still the one of the tag."""
        document: dict[str, Any] = json.loads(text)
        decisions = document.pop("decisions")
        generation, before = (0, "") if not tag else json.loads(tag)
        known = _continued(workload, decisions, _object(before) or {})
        if not known:
            generation = self._newest_generation(workload) + 1
        added = decisions[known:]
        head = {
            **_key(workload, _HEAD),
            "generation": {"N": str(generation)},
            "document": {"S": json.dumps(document)},
            "posture": {"S": document["state"]["posture"]},
            "since": {"S": document["state"]["since"]},
            "reason": {"S": document["state"]["reason"]},
        }
        puts = [_put(self.table, head, **_unchanged(tag, before))]
        for number, decision in enumerate(added, known + 1):
            item = {
                **_key(workload, f"{generation:04}/{number:06}"),
                **_decision(decision),
            }
            puts.append(_put(self.table, item, ConditionExpression="attribute_not_exists(part)"))
        if len(puts) > _AT_ONCE:
            raise ConflictError(f"{len(added)} decisions at once, allowed: {_AT_ONCE - 1}")
        try:
            self.client.transact_write_items(TransactItems=puts)
        except self.client.exceptions.TransactionCanceledException as error:
            reasons = [one.get("Code") for one in error.response.get("CancellationReasons", [])]
            if any(reason in _CONFLICTS for reason in reasons):
                raise ConflictError(f"the record of {workload} was changed meanwhile") from error
            raise

    def _decisions(self, workload: str, generation: int, last: int) -> Iterator[Any]:
        for item in self._items(workload, f"{generation:04}/"):
            if int(item["part"]["S"].rpartition("/")[2]) <= last:
                text = item.get("decision", {}).get("S", "")
                yield _object(text) or text

    def _newest_generation(self, workload: str) -> int:
        """The newest that a damaged record, or one that lost its head, has left."""
        parts = [item["part"]["S"] for item in self._items(workload, "0")]
        return max((int(part.partition("/")[0]) for part in parts), default=0)

    def _items(self, workload: str, prefix: str) -> Iterator[Mapping[str, Any]]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            ConsistentRead=True,
            KeyConditionExpression="workload = :workload AND begins_with(part, :prefix)",
            ExpressionAttributeValues={":workload": {"S": workload}, ":prefix": {"S": prefix}},
        )
        for page in pages:
            yield from page["Items"]


def _key(workload: str, part: str) -> dict[str, Any]:
    return {"workload": {"S": workload}, "part": {"S": part}}


def _put(table: str, item: Mapping[str, Any], **condition: Any) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": dict(item), **condition}}


def _unchanged(tag: str, document: str) -> dict[str, Any]:
    if not tag:
        return {"ConditionExpression": "attribute_not_exists(part)"}
    if not document:
        return {"ConditionExpression": "attribute_not_exists(document)"}
    return {
        "ConditionExpression": "document = :document",
        "ExpressionAttributeValues": {":document": {"S": document}},
    }


def _continued(workload: str, decisions: list[Any], before: Mapping[str, Any]) -> int:
    """How many of the decisions are in the table already; none where the record begins anew."""
    revision = before.get("revision")
    if not isinstance(revision, int) or revision > len(decisions):
        return 0
    same = before.get("digest") == digest_of(workload, decisions[:revision])
    return revision if same else 0


def _decision(decision: Mapping[str, Any]) -> dict[str, Any]:
    """One decision: whole for the program, and in parts for people and for the notifier."""
    moved = decision["before"] != decision["after"]
    return {
        "decision": {"S": json.dumps(decision)},
        "when": {"S": decision["event"]["when"]},
        "who": {"S": decision["event"]["who"]},
        "before": {"S": decision["before"]},
        "after": {"S": decision["after"]},
        "reason": {"S": decision["reason"]},
        "moved": {"S": "yes" if moved else "no"},
    }


def _number(item: Mapping[str, Any], name: str) -> int:
    try:
        return int(item[name]["N"])
    except (KeyError, TypeError, ValueError):
        return 0


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
