"""Has `make bootstrap` been run in the account and region that this folder's project goes to?

    python -m compilegate.infra.bootstrapped

Exit code 0: yes, or these credentials are not allowed to look (a CI role never bootstraps).
Exit code 1: no. Exit code 2: AWS could not be asked; standard error says why.
"""

from __future__ import annotations

import sys

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.account.errors import AwsError
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, Names, SettingsError, read_settings

YES, NO, UNKNOWN = 0, 1, 2


def main() -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        return _look(open_session(settings.region, settings.account), Names(settings).qualifier)
    except (AwsError, BotoCoreError, ClientError, SettingsError) as error:
        print(f"Cannot tell whether `cdk bootstrap` has been run: {error}", file=sys.stderr)
        return UNKNOWN


def _look(session: AwsSession, qualifier: str) -> int:
    try:
        session.client("ssm").get_parameter(Name=f"/cdk-bootstrap/{qualifier}/version")
    except ClientError as error:
        match error.response["Error"]["Code"]:
            case "ParameterNotFound":
                return NO
            case "AccessDeniedException":
                return YES
        raise
    return YES


if __name__ == "__main__":
    sys.exit(main())
