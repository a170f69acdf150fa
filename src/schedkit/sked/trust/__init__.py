"""What may run: rules and signatures, read by processes of their own that the manager does not trust.

`rules_folder` follows the administrator's mounted files, which `rules_process` reads. `verifications` knows
who signed what, which `verifier_process` finds out. `messages` is what they say to each other, `confined`
keeps them within limits.
"""
