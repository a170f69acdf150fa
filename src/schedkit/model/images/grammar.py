"""Names and references as regular expressions, in the part of the syntax that Python and CEL share."""

from __future__ import annotations

_HOST_LABEL = r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"
_PORT = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS = r"\[[a-fA-F0-9:]+\]"
# as container runtimes read it: the first part names a registry if it has a dot or a port, or is localhost
REGISTRY = (
    rf"(?:(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})+|localhost|{_ADDRESS})(?::{_PORT})?|{_HOST_LABEL}:{_PORT})"
)
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
PATH = rf"{_PATH_PART}(?:/{_PATH_PART})*"
REPOSITORY = rf"(?:{REGISTRY}/)?{PATH}"
REPOSITORIES = rf"{REGISTRY}(?:/{_PATH_PART})*"  # a registry, a folder in it, or a repository
TAG = r"[a-zA-Z0-9_][-.a-zA-Z0-9_]{0,127}"
DIGEST = r"sha256:[a-f0-9]{64}"  # no other kind can be verified, or compared with a list of what is allowed
IMAGE = rf"^{REPOSITORY}(?::{TAG})?(?:@{DIGEST})?$"

_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_LABEL = r"[a-zA-Z0-9](?:[-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
LABEL_KEY = rf"^(?:{DNS_SUBDOMAIN}/)?{_LABEL}$"
LABEL_VALUE = rf"^(?:{_LABEL})?$"
NAMESPACE = rf"^{_DNS_LABEL}$"  # of at most 63 characters
OBJECT_NAME = rf"^{DNS_SUBDOMAIN}$"
ENV_NAME = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
DATA_KEY = r"^[-._a-zA-Z0-9]+$"
PERCENTAGE = r"^(?:[1-9][0-9]?|100)%$"
