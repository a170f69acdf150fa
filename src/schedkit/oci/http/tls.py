"""Whose certificates servers may have: those of the system's authorities, and of a file's."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

from schedkit.oci.errors import RegistryError

_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]")
_WHOLE_STORE: Final = 50  # authorities; the public ones are two or three times as many
# OpenSSL's numbers for an issuer that it does not find, with and without certificates above it
_UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})


class Authorities:
    """The context of TLS connections; from an index, each authority is read when a server names it.

    To read all of them takes longer than to verify an image.
    """

    def __init__(self, ca_file: Path | None, *, index: Path | None) -> None:
        self.context = ssl.create_default_context(capath=index)
        self._are_complete = index is None
        try:
            if ca_file is not None:
                self.context.load_verify_locations(ca_file)
        except OSError as error:  # as ssl's own errors are, too
            problem = f"{ca_file} cannot be read as CA certificates: {error}"
            raise RegistryError(problem) from error

    def complete(self) -> bool:
        """Read the whole store, in which there may be more than in its index; False: it was read before."""
        if self._are_complete:
            return False
        self.context.load_default_certs()
        self._are_complete = True
        return True


def system_authorities(ca_file: Path | None) -> Authorities:
    """Those that this machine trusts, and those of the file."""
    return Authorities(ca_file, index=_index())


def has_unknown_issuer(error: BaseException | None) -> bool:
    """Whether a certificate was refused only because nobody knows who issued it."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _UNKNOWN_ISSUER


def _index() -> Path | None:
    """The system's folder of authorities, if each can be found by its name; None: all have to be read."""
    paths = ssl.get_default_verify_paths()
    if paths.openssl_cafile_env in os.environ or paths.openssl_capath_env in os.environ:
        return None  # somebody chose others
    folder = Path(paths.openssl_capath)
    return folder if is_indexed(folder) else None


def is_indexed(folder: Path) -> bool:
    """Whether all authorities can be found there by name; a few are some that were added to a bundle's."""
    with suppress(OSError):
        names = os.listdir(folder)  # noqa: PTH208 - a Path for each takes longer than to look at it
        return sum(_HASHED.fullmatch(name) is not None for name in names) >= _WHOLE_STORE
    return False
