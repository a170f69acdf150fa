"""Inputs that are nearly right, by the million: nothing but a refusal may come of one, and soon.

`python -m rig.fuzz` takes genuine documents and signatures, changes them where their structure is, and puts
them to every parser of what strangers write, and to whole verifications. `mutations` changes, `targets` names
the parsers, `verifications` makes images with signatures of all kinds, `workers` runs it all on every core.
"""
