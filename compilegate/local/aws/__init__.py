"""AWS as jobs find it here: S3 over the local store, and a sentence for every other service."""
