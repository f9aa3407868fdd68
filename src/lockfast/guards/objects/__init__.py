"""The guard for object stores with the S3 API. It uses conditional puts.

You pass your own client of boto3 or aiobotocore. The guard stores the mark inside each object.
"""

from lockfast.guards.objects.guard import AsyncObjectGuard, ObjectGuard

__all__ = ["AsyncObjectGuard", "ObjectGuard"]
