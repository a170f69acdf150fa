"""How a verb's answer is printed.

`answer` in one of three formats, `result` its base class, `terminal` colours, `progress` what goes on
meanwhile, `scheduler_output` what a scheduler writes.
"""
