"""A client's claims: how they are made, kept alive, and given up."""
