"""Files that survive a crash, in folders that nobody else can write to.

`whole`: a file is there with all of its content, or not at all. `guarded`: what was decided before is
believed only where nobody but root and ourselves can have written it. A leaf: imports nothing of ours.
"""
