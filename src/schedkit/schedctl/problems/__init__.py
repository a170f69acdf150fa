"""What users are told when something fails.

`problem` with the exit codes, `explanations` for errors of all other rooms, `refusals` for those of the
model, `elsewhere` where no runtime answers.
"""
