"""What can go wrong with an API server; a class for each thing a caller does next.

KubeError
├── ConfigError            mend the configuration; nothing was asked
├── FencedError            stop: this process may no longer act; nothing was sent
├── UnavailableError       try again later; `acted` says whether the server may have acted
├── DecodeError            the answer was not of the declared type
└── ApiError               the server refused, and says why
    ├── NotFoundError      it is not there
    ├── AlreadyExistsError it is already there: read it and decide
    ├── ConflictError      somebody was faster: read again and decide again
    ├── GoneError          that version is forgotten: list again
    ├── ForbiddenError     somebody must grant a permission
    │   └── UnauthorizedError  the login is not valid: log in anew
    └── InvalidError       the object must change; `causes` names its fields
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec


class KubeError(Exception):
    """Anything that can go wrong with an API server."""


class ConfigError(KubeError):
    """The way to the API server is not described, or wrongly."""


class FencedError(KubeError):
    """This process may not act now; the request was not sent."""


class DecodeError(KubeError):
    """The server's answer does not fit the declared type."""


class UnavailableError(KubeError):
    """The server could not be reached, was overloaded or broke; later it may work."""

    def __init__(
        self, message: str, *, acted: bool, code: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.acted = acted  # False: the server surely did nothing
        self.code = code  # None: there was no answer
        self.retry_after_s = retry_after_s  # None: the server did not say


class Cause(msgspec.Struct, frozen=True):
    """One field of an object that the server did not accept, and why."""

    field: str = ""
    message: str = ""
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None
    retry_after_seconds: int | None = msgspec.field(default=None, name="retryAfterSeconds")


class Status(msgspec.Struct):
    """The API's own description of a failure; every field may be missing."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


class ApiError(KubeError):
    """The server refused; code, reason and message are its own."""

    def __init__(self, code: int, status: Status) -> None:
        self.code = code
        self.reason = status.reason or _phrase(code)
        self.message = status.message or "the server gave no message"
        self.causes = tuple((status.details.causes if status.details else None) or ())
        super().__init__(f"{code} {self.reason}: {self.message}")

    def has_cause(self, reason: str) -> bool:
        """Whether the server gives that among its reasons."""
        return any(cause.reason == reason for cause in self.causes)


class NotFoundError(ApiError):
    """It is not there."""


class AlreadyExistsError(ApiError):
    """Something of that name is already there."""


class ConflictError(ApiError):
    """It changed since it was read, or somebody else manages a field."""


class GoneError(ApiError):
    """The server has forgotten that version: list again."""


class ForbiddenError(ApiError):
    """This user may not do that."""


class UnauthorizedError(ForbiddenError):
    """The server does not know who asks: the credentials are wrong, or no longer valid."""


class InvalidError(ApiError):
    """The object cannot be accepted as it is; `causes` names the fields."""


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "Gone": GoneError,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}
_OVERLOADED = 429
_MESSAGE_CHARACTERS = 500


def read_status(body: bytes) -> Status:
    """What a body says about a failure: a Status if it is one, otherwise its text."""
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body.decode(errors="replace").strip()
        return Status(message=text[:_MESSAGE_CHARACTERS] or None)


def failure(code: int, status: Status, *, retry_after: str | None = None) -> ApiError | UnavailableError:
    """The error that an answer with that code stands for."""
    if code == _OVERLOADED or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        text = f"{code} {status.reason or _phrase(code)}: {status.message or 'the server gave no message'}"
        wait_s = _seconds(retry_after, status)
        return UnavailableError(text, acted=code != _OVERLOADED, code=code, retry_after_s=wait_s)
    if _is_about_another_object(status):
        return ConflictError(code, status)
    kind = _BY_REASON.get(status.reason or "") or _BY_CODE.get(code, ApiError)
    return kind(code, status)


def _is_about_another_object(status: Status) -> bool:
    """Whether a patch named the uid of a predecessor; the server calls that invalid, not a conflict."""
    causes = (status.details.causes if status.details else None) or ()
    return any(cause.field == "metadata.uid" for cause in causes)


def _seconds(retry_after: str | None, status: Status) -> float | None:
    """How long the server asks to wait, from its header or its body; a date is not understood."""
    if retry_after is not None and retry_after.strip().isdecimal():
        return float(retry_after)
    if status.details is not None and status.details.retry_after_seconds:
        return float(status.details.retry_after_seconds)
    return None


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "Unknown"
