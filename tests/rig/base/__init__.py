"""What every rig stands on: processes that end with us, waiting, progress, the cache outside the clone.

Imports nothing of the other rooms.
"""
