"""The target SageMaker: an account, spoken to with boto3.

    session.py       the way in: clients with time limits that try again
    errors.py        boto3's errors as one sentence each
    settings/        infra/settings.toml, and every name that is given in the account
    deployed.py      where everything lies, as the stacks' outputs and the pipelines say it
    executions/      start, follow and stop executions: executor.py is the target's seam
    plan/            what would change, be served from the cache, cost and be forbidden
    object_store.py  S3, and the raw data in it, found by its digest
    images.py        container images and their builds

Every function that asks AWS raises an AwsError.
"""
