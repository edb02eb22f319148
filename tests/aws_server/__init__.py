"""AWS over HTTP, on this machine: moto's server, and in front of it what moto lacks.

    python -m tests.aws_server          prints the port that it listens on

Every request goes to moto, except for the operations of pipeline executions and of builds, which
moto records as an instant success: here both go through the frames of a script. Any operation can
be made to fail, and every operation that was asked for is on a list.

    POST /stand-in/reset      forget everything, moto included
    POST /stand-in/scripts    {"pipeline": NAME, "frames": [FRAME, ...]}: what executions do
    POST /stand-in/build-scripts  {"project": NAME, "frames": [FRAME, ...]}: what builds do
    POST /stand-in/endpoint-ends  {"name": ..., "how": ...}: how an endpoint's deployment ends
    POST /stand-in/faults     {"operation": NAME, "code": ..., ...}: answer that with an error
    POST /stand-in/quotas     {NAME: VALUE}: the account's quotas of SageMaker
    GET  /stand-in/calls      [{"operation": NAME, "request": {...}}, ...], oldest first

Stacks are deployed by moto's CloudFormation, with the resource types and the repairs of
`cloudformation/`. `executions.py` and `builds.py` say what a frame is, `faults.py` what a fault is,
`serving/` has the endpoints, `client.py` starts the server.
"""
