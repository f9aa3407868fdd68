"""Signed tokens: verifies that the service has granted a token, before a guard compares it.

It needs the extra `jwt`.
"""

from lockfast.guards.signed.keys import PublicKeys
from lockfast.guards.signed.proofs import Proofs, Proven

__all__ = ["Proofs", "Proven", "PublicKeys"]
