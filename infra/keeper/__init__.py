"""The keeper: a workload's one Lambda function. It runs on Python 3.14 with the runtime's own boto3
and with the parts of this package that `program.PROGRAM` lists."""
