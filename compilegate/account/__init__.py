"""The account, spoken to with boto3: what is deployed, executions, images, raw data, plans.

    session.py      the way in: clients with time limits that try again
    errors.py       boto3's errors as one sentence each; web_pages.py: what is no answer of AWS
    stacks.py       where everything lies, as the stacks' outputs say it
    executions.py   start, read, list and stop; execution_state.py is what comes back      pure
    watching.py     follow one to its end, as events.py tells what happens in it           pure
    verdict.py      the gate's files, fetched; logs.py: what a job printed last
    raw_data.py     raw data in the bucket, by its digest, through object_store.py
    images.py       container images, and image_builds.py
    plan/           what would change, be served from the cache, cost and be forbidden

Every function that asks AWS raises an AwsError.
"""
