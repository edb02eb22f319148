"""The target SageMaker: an account, spoken to with boto3. `executions.py` is the target's seam.

Every function that asks AWS raises an AwsError.
"""
