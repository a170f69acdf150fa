"""Real cosign, a Sigstore of our own, and signatures that are wrong in exactly one respect."""
