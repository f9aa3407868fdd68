"""Controls: broken ways of building it, each with the fault that must reveal it.

A harness that finds nothing wrong shows nothing, unless it finds what is wrong on purpose.
"""
