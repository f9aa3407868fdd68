"""Integrations with frameworks, for work that only one of many processes may do at a time.

Each integration is a module or package of its own, and needs the extra of the same name.
"""
