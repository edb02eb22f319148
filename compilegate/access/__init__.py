"""Who may do what in an account, as policies: names in, statements out. Pure.

The CDK app makes roles of them; `compilegate aws roles` prints them for those who make roles
themselves.
"""

from compilegate.access.policy import Arns, Statement

__all__ = ["Arns", "Statement"]
