"""What users are told when something fails.

`problem` with the exit codes, `explanations` for errors of all other rooms.
"""
