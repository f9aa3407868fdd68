"""The places people work: frameworks in which one of many processes does a thing.

Each is a module, or a small package, behind an extra of its name.
"""
