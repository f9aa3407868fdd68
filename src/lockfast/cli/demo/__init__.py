"""The stage of `lockfast demo`: its workers, where their locks are, and what is shown of them."""
