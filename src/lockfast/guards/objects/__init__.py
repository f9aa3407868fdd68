"""The guard for object stores that speak S3: conditional puts, with the mark inside the body.

The client is boto3's or aiobotocore's, and the user's own.
"""

from lockfast.guards.objects.guard import AsyncObjectGuard, ObjectGuard

__all__ = ["AsyncObjectGuard", "ObjectGuard"]
