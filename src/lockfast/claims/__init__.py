"""A client's claims: how they are acquired, renewed and released."""
