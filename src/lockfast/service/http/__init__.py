"""The service by plain HTTP: one request for each step, for curl and for programs in any language.

A replica remembers nothing between two requests. What the next request needs is in the handle that
the reply to the first one contains.
"""
