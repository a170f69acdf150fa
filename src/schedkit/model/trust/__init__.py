"""Who may sign what runs in a kernel.

`policy`: a trust policy and its parser, which is given an engine for regular expressions. `rules`: what the
administrator of a cluster allows, a policy among it; `rules_in_force`: which of them count while they are
changed, mended or gone. `steps`: the numbered steps of verification, and what a refusal says. `verified`:
what a verification leaves, and the `Admission` that running an image needs. `registry_failures`: which
failure of a registry says something about the image.
"""
