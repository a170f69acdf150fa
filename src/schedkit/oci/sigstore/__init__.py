"""The verifier: whether an image was signed by somebody who is trusted.

Begin with `verify`: the numbered steps of docs/trust/verification.md, in order. Step 3 is `find`; 4
`bundles`, `cosign2` and `strict`; 5 and 6 `statements`; 7 `log_inclusion`; 8 `log_entries`; 9 `timestamps`;
10, 11 and 13 `certificates`; signatures themselves `keys` and `ed25519ph`. `trusted_root`: whose word counts.

It is ours because no library for Python verifies all four forms in use (ADR 0017). Whoever changes what it
decides raises `REVISION` in `schedkit.model.trust.steps`.
"""
