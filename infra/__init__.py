"""The CDK app: what a project is in an AWS account. Nothing imports this room."""
