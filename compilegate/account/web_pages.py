"""Answers that are not of AWS: the page of a proxy, or of a portal where one has to sign in first.

boto3 reads a page as an answer without members, or as a refusal, and a page in answer to an upload
as a success.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError

SERVER_FAULTS = 500
"""Statuses from here on are of a server that failed; botocore tries those again by itself."""
_REQUEST_IDS = {"x-amzn-requestid", "x-amzn-request-id", "x-amz-request-id"}


class WebPageError(BotoCoreError):
    """What answered is not AWS."""

    fmt = "a web page came back, with status {status}"


def refuse_web_pages(response_dict: Mapping[str, Any], **_event: Any) -> None:
    """Handles botocore's `before-parse`. Raises WebPageError.

    A page that lies in S3 comes with the identifier that AWS gives each request.
    """
    headers = {name.lower(): value for name, value in response_dict["headers"].items()}
    status = int(response_dict["status_code"])
    page = headers.get("content-type", "").startswith("text/html")
    if page and status < SERVER_FAULTS and not _REQUEST_IDS & headers.keys():
        raise WebPageError(status=status)
