"""AWS as jobs find it here: S3 over the local store, and a sentence for every other service.

variables.py    what a job's environment says, so that no job reaches a real account by accident
endpoint.py     a socket that costs nothing until a job connects
server.py       HTTP: whose request it is, and for which service
s3.py           what S3 answers: buckets, objects, listings, copies
uploads.py      objects on their way in: one body, or many parts
bodies.py       the bodies of requests, as they come
"""
