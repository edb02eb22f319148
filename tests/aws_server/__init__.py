"""AWS over HTTP, on this machine: moto's server, and in front of it what moto lacks.

    python -m tests.aws_server          prints the port that it listens on

moto answers every request, except for those of pipeline executions and builds, which moto records
as an instant success: here both go through the frames of a script. Any operation can be made to
fail, and every request is recorded.

    client.py          starts the server; what a test calls
    application.py     scripts, faults, records and quotas of an account, and the way to moto
    accounts.py        what one account may read of another
    sagemaker.py       executions, and what moto lacks of endpoints and of the model registry
    codebuild.py       builds
    cloudformation.py  the resource types that moto lacks
    repairs.py         what moto does wrong with stacks and resources
"""
