"""How the TUF library gets its files: over our own connections, with their deadlines and authorities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

from schedkit.oci.errors import NotFound, RegistryError, Unauthorized
from schedkit.oci.http.urls import split_address
from schedkit.oci.registry.download import Downloads

_LARGEST: Final = 5 << 20  # of all files; the library knows a narrower limit for each kind
# the library takes either as the word that there is no newer root
_FORBIDDEN, _MISSING = 403, 404


class TufFetcher(FetcherInterface):
    """Fetches what the library asks for; what goes wrong is an error of the library's, in our words."""

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads

    def _fetch(self, url: str) -> Iterator[bytes]:
        if split_address(url) is None:
            raise DownloadError("its address cannot be requested")
        try:
            return iter([self._downloads.fetch(url, limit=_LARGEST)])
        except NotFound as error:
            raise DownloadHTTPError(str(error), _MISSING) from error
        except Unauthorized as error:
            raise DownloadHTTPError(str(error), _FORBIDDEN) from error
        except RegistryError as error:
            raise DownloadError(str(error)) from error
