"""One registry's host: which scheme it speaks, logging in, redirects, retries, and what a status means."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

from schedkit.model import documents
from schedkit.model.documents import InvalidDocument
from schedkit.model.images import Repository
from schedkit.oci import authentication
from schedkit.oci.authentication import Challenge, Credentials, Login
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unauthorized, Unreachable
from schedkit.oci.transport import NotTls, Request, Response, Transport

T = TypeVar("T")

_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LARGEST_COMPLAINT = 8 * 1024
_LARGEST_RECEIPT = 64 * 1024
_LONGEST_ADDRESS = 8 * 1024
_ALWAYS = {"Accept-Encoding": "identity", "User-Agent": "schedkit"}
_dice = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one operation may take, however often it is tried."""

    total_s: float = 60
    attempts: int = 4
    first_delay_s: float = 0.25
    longest_delay_s: float = 5
    # what a transfer may take in addition: slower than this for its whole length is no transfer
    slowest_bytes_per_s: int = 16 * 1024

    def ends(self, now: float, *, size: int = 0) -> float:
        """When an operation that moves that many bytes must have ended."""
        return now + self.total_s + size / self.slowest_bytes_per_s


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a registry about a repository."""

    repository: Repository
    path: str  # what follows the repository's path, or a whole URL that the registry gave
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Iterable[bytes] | None = None
    actions: str = "pull"
    tolerated: frozenset[int] = frozenset()  # statuses that are answers and no errors
    also_pulls: str = ""  # another repository's path that the token must cover, to mount from it


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Speaks with one host; remembers its scheme and its tokens."""

    def __init__(
        self,
        host: str,
        transport: Transport,
        credentials: Credentials,
        *,
        plain_allowed: bool,
        patience: Patience,
    ) -> None:
        self._host = host
        self._transport = transport
        self._credentials = credentials
        self._plain_allowed = plain_allowed
        self._patience = patience
        self._scheme: str | None = None  # None: not asked yet
        self._challenge: Challenge | None = None  # None: it has never asked for a login
        self._authorizations: dict[tuple[Repository, str, str], str] = {}

    def read(self, ask: Ask, *, limit: int) -> Answer:
        """The whole answer, of at most that many bytes; tried again while that may help."""

        def attempt(ends: float) -> Answer:
            with self._answered(ask, ends) as response:
                body = read_bounded(response, limit)
                return Answer(response.status, response.url, response.headers, body)

        return self._persistently(attempt, ends=self._patience.ends(time.monotonic()))

    @contextmanager
    def open(self, ask: Ask, *, ends: float) -> Iterator[Response]:
        """An answer whose body is still on its way; getting it is tried again, reading it is not."""
        response = self._persistently(lambda ends: self._exchange(ask, ends), ends=ends)
        try:
            yield response
        finally:
            response.close()

    def send_once(self, ask: Ask, *, size: int) -> Answer:
        """The answer to something that cannot be said twice, because its content is gone then."""
        with self._answered(ask, self._patience.ends(time.monotonic(), size=size)) as response:
            body = read_bounded(response, _LARGEST_RECEIPT)
            return Answer(response.status, response.url, response.headers, body)

    def _persistently(self, attempt: Callable[[float], T], *, ends: float) -> T:
        for number in range(1, self._patience.attempts + 1):
            try:
                return attempt(ends)
            except Unreachable as error:
                delay_s = _delay(error, self._patience, number)
                if number == self._patience.attempts or time.monotonic() + delay_s >= ends:
                    raise
            time.sleep(delay_s)
        raise AssertionError("an attempt returns or raises")

    @contextmanager
    def _answered(self, ask: Ask, ends: float) -> Iterator[Response]:
        response = self._exchange(ask, ends)
        try:
            yield response
        finally:
            response.close()

    def _exchange(self, ask: Ask, ends: float) -> Response:
        """A good answer; after a 401, a second try with what was asked for."""
        home = f"{self._scheme or self._find_scheme(ends)}://{self._host}"
        url = ask.path if urlsplit(ask.path).scheme else f"{home}/v2/{ask.repository.path}/{ask.path}"
        response = self._follow(self._request(ask, url, home, ends), ends)
        if response.status == 401 and _can_be_repeated(ask) and _origin(response.url) == _origin(home):
            response.close()
            self._log_in(response.headers.get("www-authenticate", ""), ask)
            response = self._follow(self._request(ask, url, home, ends), ends)
        if response.status < 300 or response.status in ask.tolerated:
            return response
        raise self._failure(response)

    def _find_scheme(self, ends: float) -> str:
        """https; plain HTTP only where it is allowed, and only if the host does not speak TLS."""
        self._scheme = "https"
        if self._plain_allowed:
            try:
                self._transport.send(Request("GET", f"https://{self._host}/v2/"), ends=ends).close()
            except NotTls:
                self._scheme = "http"
        return self._scheme

    def _request(self, ask: Ask, url: str, home: str, ends: float) -> Request:
        headers = {**_ALWAYS, **ask.headers}
        if self._challenge is not None and _origin(url) == _origin(home):
            headers["Authorization"] = self._authorization(ask, self._challenge, ends)
        return Request(ask.method, url, headers, ask.content)

    def _follow(self, request: Request, ends: float) -> Response:
        """The answer at the end of all redirects; another origin never sees the login."""
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._transport.send(request, ends=ends)
            if response.status not in _REDIRECTS or request.method not in {"GET", "HEAD"}:
                return response
            response.close()
            request = self._redirected(request, response)
        raise Refused(f"{self._host} redirects more than {_MOST_REDIRECTS} times")

    def _redirected(self, request: Request, response: Response) -> Request:
        location = response.headers.get("location", "")
        target = join_address(request.url, location)
        if urlsplit(request.url).scheme == "https" and urlsplit(target).scheme != "https":
            raise Refused(f"{self._host} redirects from https to {target[:80]!r}")
        if _origin(target) == _origin(request.url):
            return replace(request, url=target)
        headers = {name: value for name, value in request.headers.items() if name != "Authorization"}
        return replace(request, url=target, headers=headers)

    def _log_in(self, header: str, ask: Ask) -> None:
        """Remember what the host asks for, and forget what it did not accept: tokens expire."""
        challenge = authentication.parse_challenge(header, host=self._host)
        if challenge.scheme == "bearer":
            authentication.refuse_unsafe_realm(challenge, host=self._host, secure=self._scheme == "https")
        self._challenge = challenge
        self._authorizations.pop(_scope(ask), None)

    def _authorization(self, ask: Ask, challenge: Challenge, ends: float) -> str:
        scope = _scope(ask)
        if scope not in self._authorizations:
            login = self._credentials.find(ask.repository)
            self._authorizations[scope] = self._obtain(ask, challenge, login, ends)
        return self._authorizations[scope]

    def _obtain(self, ask: Ask, challenge: Challenge, login: Login | None, ends: float) -> str:
        if challenge.scheme == "bearer":
            return f"Bearer {self._token(ask, challenge, login, ends)}"
        if login is None:
            raise Unauthorized(
                f"{self._host} asks for a login, and none is known for {ask.repository}: log in"
            )
        return login.basic()

    def _token(self, ask: Ask, challenge: Challenge, login: Login | None, ends: float) -> str:
        response = self._transport.send(_token_request(ask, challenge, login), ends=ends)
        try:
            if response.status != 200:
                raise self._failure(response)
            body = read_bounded(response, authentication.LARGEST_TOKEN_ANSWER)
        finally:
            response.close()
        return authentication.parse_token(body, host=self._host)

    def _failure(self, response: Response) -> RegistryError:
        """The error that an answer stands for, with the server's own words where there are any."""
        complaint = _complaint(response)
        text = f"{self._host} answered {response.status}{complaint}"
        if response.status in {401, 403}:
            return Unauthorized(f"{text}. Log in, or ask for permission")
        if response.status in {404, 410}:
            return NotFound(text)
        if response.status == 429 or response.status >= 500:
            return Unreachable(text, retry_after_s=retry_after(response.headers.get("retry-after", "")))
        return Refused(text)


def read_bounded(response: Response, limit: int) -> bytes:
    """The whole body; `TooLarge` as soon as it is known to be more than that."""
    refuse_encoded(response)
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise TooLarge(f"{_said(response)} has {announced[:20]} bytes; {limit} is the most")
    body = bytearray()
    for piece in response.pieces():
        body += piece
        if len(body) > limit:
            raise TooLarge(f"{_said(response)} has more than {limit} bytes")
    return bytes(body)


def refuse_unfit(response: Response, size: int, *, begins: int = 0) -> None:
    """Let pass only what may be the undecoded bytes of something of that size, from that place on."""
    refuse_encoded(response)
    if begins and not response.headers.get("content-range", "").startswith(f"bytes {begins}-"):
        raise Unreachable(f"{_said(response)} broke off, and is not continued where it did")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) != size - begins:
        raise Refused(f"{_said(response)} has {announced[:20]} bytes; {size - begins} were expected")


def refuse_encoded(response: Response) -> None:
    """A few kilobytes of compressed zeros are gigabytes: nothing is decoded that was not asked for."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in {"", "identity"}:
        raise Refused(f"{_said(response)} is encoded as {encoding[:40]!r}, though no encoding was asked for")


def join_address(base: str, location: str) -> str:
    """Where a server sends us, as an absolute http or https URL; `Refused` if it is none."""
    try:
        joined = urljoin(base, location)
        parts = urlsplit(joined)
        usable = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        usable = port_is_number = False
    acceptable = location.isascii() and 0 < len(location) <= _LONGEST_ADDRESS
    if not (acceptable and usable and port_is_number):
        raise Refused(f"{urlsplit(base).netloc} sends us to {location[:80]!r}, which is no usable address")
    return joined


def retry_after(value: str) -> float | None:
    """The seconds that a Retry-After header asks to wait, from a number or a date; None: it does not say."""
    if value.strip().isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _delay(error: Unreachable, patience: Patience, attempt: int) -> float:
    if error.retry_after_s is not None:
        return error.retry_after_s
    doubled: float = patience.first_delay_s * 2 ** (attempt - 1)
    return min(doubled, patience.longest_delay_s) * _dice.uniform(0.5, 1)


def _can_be_repeated(ask: Ask) -> bool:
    return ask.content is None or isinstance(ask.content, bytes)


def _scope(ask: Ask) -> tuple[Repository, str, str]:
    return ask.repository, ask.actions, ask.also_pulls


def _token_request(ask: Ask, challenge: Challenge, login: Login | None) -> Request:
    """Ask for what is needed and no more, whatever the challenge proposes."""
    scopes = [f"repository:{ask.repository.path}:{ask.actions}"]
    scopes += [f"repository:{ask.also_pulls}:pull"] if ask.also_pulls else []
    asked = [("service", challenge.service)] if challenge.service else []
    headers = dict(_ALWAYS)
    if login is not None and login.identity_token:
        form = [*asked, ("scope", " ".join(scopes)), ("client_id", "schedkit")]
        form += [("grant_type", "refresh_token"), ("refresh_token", login.identity_token)]
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode()
        headers["Content-Length"] = str(len(body))
        return Request("POST", challenge.realm, headers, body)
    if login is not None:
        headers["Authorization"] = login.basic()
    query = urlencode([*asked, *(("scope", scope) for scope in scopes)])
    separator = "&" if urlsplit(challenge.realm).query else "?"
    return Request("GET", f"{challenge.realm}{separator}{query}", headers)


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _said(response: Response) -> str:
    return f"the answer of {urlsplit(response.url).netloc}"


def _complaint(response: Response) -> str:
    """The first message of the distribution API's error document, if there is one."""
    try:
        tree = documents.read_object(read_bounded(response, _LARGEST_COMPLAINT), what="the complaint")
        message = tree["errors"][0]["message"]
    except (InvalidDocument, RegistryError, KeyError, IndexError, TypeError):
        return ""
    finally:
        response.close()
    return f": {message[:200]!r}" if isinstance(message, str) else ""
