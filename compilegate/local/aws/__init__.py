"""AWS as jobs find it here: S3 over the local store, and a sentence for every other service.

variables.py    what leads a job here, so that none reaches a real account by accident
server.py       HTTP: whose request it is, and for which service
s3.py           what S3 answers: buckets, objects, listings, uploads
"""
