"""What a container of ours carries, so that whoever finds it later knows what it is."""

from __future__ import annotations

from typing import Final

CATALOG_NAME: Final = "org.schedkit.catalog-name"
IMAGE: Final = "org.schedkit.image"  # as it was asked for
DIGEST: Final = "org.schedkit.digest"  # what was resolved, and what signatures are about
SIGNER: Final = "org.schedkit.signer"  # absent: it was not verified
POLICY: Final = "org.schedkit.policy"
OPTIONS: Final = "org.schedkit.options"  # of `schedctl run`, and what they meant then, as JSON
