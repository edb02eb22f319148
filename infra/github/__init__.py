"""What GitHub has to say about who may deploy. It imports no CDK: a check takes a second."""
