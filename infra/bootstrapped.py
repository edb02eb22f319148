"""Has `cdk bootstrap` been run in the account and region that this folder's project goes to?

Exit code 0: yes, or these credentials are not allowed to look (a CI role never bootstraps).
Exit code 1: no. Exit code 2: AWS could not be asked; standard error says why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.account.errors import AwsError
from compilegate.account.session import open_session
from compilegate.account.settings import SETTINGS_FILE, SettingsError, read_settings

YES, NO, UNKNOWN = 0, 1, 2
DEFAULT_QUALIFIER = "hnb659fds"
"""The CDK's default."""


def main() -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        ssm = open_session(settings.region, settings.account).client("ssm")
        ssm.get_parameter(Name=f"/cdk-bootstrap/{_qualifier()}/version")
    except ClientError as error:
        match error.response["Error"]["Code"]:
            case "ParameterNotFound":
                return NO
            case "AccessDeniedException":
                return YES
        return _unknown(error)
    except (AwsError, BotoCoreError, SettingsError) as error:
        return _unknown(error)
    return YES


def _qualifier() -> str:
    context = json.loads(Path("cdk.json").read_text(encoding="utf-8"))["context"]
    return str(context.get("@aws-cdk/core:bootstrapQualifier", DEFAULT_QUALIFIER))


def _unknown(error: Exception) -> int:
    print(f"Cannot tell whether `cdk bootstrap` has been run: {error}", file=sys.stderr)
    return UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
