"""One registry's host: which scheme it speaks, logging in, retries, and what a status means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from schedkit import __version__
from schedkit.model.images.references import Repository
from schedkit.oci.errors import Intercepted, NotFound, Refused, RegistryError, Unauthorized, Unreachable
from schedkit.oci.http.bodies import complaint, read_bounded, retry_after, shown_host
from schedkit.oci.http.deadlines import capped
from schedkit.oci.http.transport import Request, Response, Transport
from schedkit.oci.http.urls import origin
from schedkit.oci.registry import challenges
from schedkit.oci.registry.challenges import Challenge, Credentials, Login
from schedkit.oci.registry.redirects import follow

T = TypeVar("T")

_LARGEST_RECEIPT = 64 * 1024
# registries say it with every answer, or they explain errors in a document
_API_VERSION = "docker-distribution-api-version"
_NOT_ITS_OWN = ", but not like a registry: a proxy may have answered instead"
ALWAYS = {"Accept-Encoding": "identity", "User-Agent": f"schedkit/{__version__}"}


class Patience(msgspec.Struct, frozen=True):
    """How long one operation may take at one place, however often it is tried."""

    total_s: float = 60
    attempts: int = 4
    first_delay_s: float = 0.25
    longest_delay_s: float = 5
    # what a transfer may take in addition: slower than this for its whole length is no transfer
    slowest_bytes_per_s: int = 16 * 1024

    def ends(self, now: float, *, size: int = 0) -> float:
        """When an operation that moves that many bytes must have ended."""
        return now + self.total_s + size / self.slowest_bytes_per_s


class Ask(msgspec.Struct, frozen=True):
    """One question to a registry about a repository."""

    repository: Repository
    path: str  # what follows the repository's path, or a whole URL that the registry gave
    method: str = "GET"
    headers: Mapping[str, str] = {}
    content: bytes | Iterable[bytes] | None = None
    actions: str = "pull"
    tolerated: frozenset[int] = frozenset()  # statuses that are answers and no errors
    also_pulls: str = ""  # another repository's path that the token must cover, to mount from it


class Answer(msgspec.Struct, frozen=True):
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

    def read(self, ask: Ask, *, limit: int, ends: float | None = None) -> Answer:
        """The whole answer, of at most that many bytes; tried again while that may help.

        `ends` is given where several answers share the time of one operation.
        """

        def attempt(ends: float) -> Answer:
            with closing(self._exchange(ask, ends)) as response:
                body = b"" if ask.method == "HEAD" else read_bounded(response, limit)
                return Answer(response.status, response.url, response.headers, body)

        return persistently(attempt, self._patience, ends=ends or self._patience.ends(time.monotonic()))

    def open(self, ask: Ask, *, ends: float) -> closing[Response]:
        """An answer whose body is still on its way; getting it is tried again, reading it is not."""
        return closing(persistently(lambda ends: self._exchange(ask, ends), self._patience, ends=ends))

    def send_once(self, ask: Ask, *, size: int) -> Answer:
        """The answer to something that cannot be said twice, because its content is gone then."""
        ends = self._patience.ends(time.monotonic(), size=size)
        with closing(self._exchange(ask, ends)) as response:
            body = read_bounded(response, _LARGEST_RECEIPT)
            return Answer(response.status, response.url, response.headers, body)

    def _exchange(self, ask: Ask, ends: float) -> Response:
        """A good answer; after a 401, a second try with what was asked for."""
        home = f"{self._scheme or self._find_scheme(ends)}://{self._host}"
        url = ask.path if urlsplit(ask.path).scheme else f"{home}/v2/{ask.repository.path}/{ask.path}"
        response = follow(self._transport, self._request(ask, url, home, ends), ends)
        if response.status == 401 and _can_be_repeated(ask) and origin(response.url) == origin(home):
            response.close()
            self._log_in(response.headers.get("www-authenticate", ""), ask, ends)
            response = follow(self._transport, self._request(ask, url, home, ends), ends)
        if response.status < 300 or response.status in ask.tolerated:
            return response
        raise failure(response)

    def _find_scheme(self, ends: float) -> str:
        """https; plain HTTP only where it is allowed, and only if the host answers nothing else.

        Asked by HEAD, whose answer has no body: the connection is there for the real question.
        """
        if not self._plain_allowed:
            self._scheme = "https"
            return self._scheme
        try:
            self._transport.send(Request("HEAD", f"https://{self._host}/v2/"), ends=ends).close()
            self._scheme = "https"
        except Unreachable:
            self._transport.send(Request("HEAD", f"http://{self._host}/v2/"), ends=ends).close()
            self._scheme = "http"
        return self._scheme

    def _request(self, ask: Ask, url: str, home: str, ends: float) -> Request:
        """With the login that was demanded before; what cannot be repeated gets one at once."""
        headers = {**ALWAYS, **ask.headers}
        if not _can_be_repeated(ask) and self._challenge is not None:
            self._authorize(ask, self._challenge, ends)
        if _scope(ask) in self._authorizations and origin(url) == origin(home):
            headers["Authorization"] = self._authorizations[_scope(ask)]
        return Request(ask.method, url, headers, ask.content)

    def _log_in(self, header: str, ask: Ask, ends: float) -> None:
        """Remember what the host asks for, and forget what it did not accept: tokens expire."""
        challenge = challenges.parse_challenge(header, host=self._host)
        if challenge.scheme == "bearer":
            challenges.refuse_unsafe_realm(challenge, host=self._host, secure=self._scheme == "https")
        self._challenge = challenge
        self._authorizations.pop(_scope(ask), None)
        self._authorize(ask, challenge, ends)

    def _authorize(self, ask: Ask, challenge: Challenge, ends: float) -> None:
        """See to it that what the question needs is known."""
        if _scope(ask) in self._authorizations:
            return
        login = self._credentials.find(ask.repository)
        if challenge.scheme == "bearer":
            authorization = f"Bearer {self._token(ask, challenge, login, ends)}"
        elif login is not None:
            authorization = login.basic()
        else:
            raise Unauthorized(f"{self._host} asks for a login, but no login is known for {ask.repository}")
        self._authorizations[_scope(ask)] = authorization

    def _token(self, ask: Ask, challenge: Challenge, login: Login | None, ends: float) -> str:
        with closing(self._transport.send(_token_request(ask, challenge, login), ends=ends)) as response:
            if response.status != 200:
                raise failure(response, of_registry=False)
            body = read_bounded(response, challenges.LARGEST_TOKEN_ANSWER)
        return challenges.parse_token(body, host=self._host)


def failure(response: Response, *, of_registry: bool = True) -> RegistryError:
    """The error that an answer stands for, with the server's own words where there are any.

    Of a registry it is known how it answers: what does not look so may be of somebody on the way.
    """
    said = complaint(response)
    text = f"{shown_host(response.url)} answered {response.status}{f': {said!r}' if said else ''}"
    is_own = not of_registry or said is not None or _API_VERSION in response.headers
    if response.status in {401, 403}:
        return Unauthorized(f"{text}. Log in, or check the name: missing images may get this answer, too")
    if response.status == 429 or response.status >= 500:
        return Unreachable(text, retry_after_s=retry_after(response.headers.get("retry-after", "")))
    if response.status in {404, 410}:
        return NotFound(text if is_own else f"{text}{_NOT_ITS_OWN}", is_hearsay=not is_own)
    if response.status == 407 or (response.status >= 400 and not is_own):
        return Intercepted(f"{text}{_NOT_ITS_OWN}")
    return Refused(text)


def persistently(attempt: Callable[[float], T], patience: Patience, *, ends: float) -> T:
    """What the attempt returns, which is told when it must have ended; an outage is tried again.

    No wait is longer than an operation without a transfer may take: `ends` grows with a size that the other
    side may have made up.
    """
    began = time.monotonic()
    for number in range(1, patience.attempts + 1):
        try:
            return attempt(ends)
        except Unreachable as error:
            delay_s = _delay(error, patience, number)
            waits_end = capped(min(ends, began + patience.total_s))
            if number == patience.attempts or time.monotonic() + delay_s >= waits_end:
                raise
        time.sleep(delay_s)
    raise AssertionError("an attempt returns or raises")


def _delay(error: Unreachable, patience: Patience, attempt: int) -> float:
    if error.retry_after_s is not None:
        return error.retry_after_s
    import random  # noqa: PLC0415 - few wait

    doubled: float = patience.first_delay_s * 2 ** (attempt - 1)
    return min(doubled, patience.longest_delay_s) * random.SystemRandom().uniform(0.5, 1)


def _can_be_repeated(ask: Ask) -> bool:
    return ask.content is None or isinstance(ask.content, bytes)


def _scope(ask: Ask) -> tuple[Repository, str, str]:
    return ask.repository, ask.actions, ask.also_pulls


def _token_request(ask: Ask, challenge: Challenge, login: Login | None) -> Request:
    """Ask for what is needed and no more, whatever the challenge proposes."""
    scopes = [f"repository:{ask.repository.path}:{ask.actions}"]
    scopes += [f"repository:{ask.also_pulls}:pull"] if ask.also_pulls else []
    asked = [("service", challenge.service)] if challenge.service else []
    headers = dict(ALWAYS)
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
