"""Values and decisions: no I/O, no clock, no logging, no async.

It imports msgspec and the standard library, and nothing else.
"""
