"""Models of the protocol in TLA+, and a runner that checks them with TLC.

A module says how something is built, with constants for the other ways of building it. Each of its
configurations, `Module-name.cfg`, begins with what must come of it: `holds`, or `refuted` and which
property is violated.
"""
