"""A module for each verb.

`machine` (what this machine runs), `images`, `catalog`, `trust`; and `config` and `completion`. Verbs do not
import each other: `image_flags` are those that several of them have.
"""
