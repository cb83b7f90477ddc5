"""The parts of a store's URL, of which only scheme, bucket, path and the options listed here are ever shown."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from offpiste.errors import StoreError, did_you_mean

TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
SWITCHES = ("anonymous", "force_virtual_addressing")
SHOWN_OPTIONS = TEXTS + SWITCHES

AZURE = ("az", "abfs", "abfss")
"""Schemes in which what stands before the @ is a container, and no account."""
_CONTAINER = re.compile("[a-z0-9-]+")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)\??([^#]*)", re.IGNORECASE)
_ALMOST_A_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*:/|(s3|gs|gcs|abfss?|az|file|https?):)", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
_NOT_SHOWN = "The URL is not shown, because it may hold a key"


class Secrets:
    """The parts of a URL that are never shown, not even by this object's repr."""

    def __init__(self, *parts: str) -> None:
        whole = {form for part in parts for form in (part, unquote(part)) if form}
        # A library may print a piece of a secret; under four characters it reveals nothing and occurs in many words.
        pieces = {piece for form in whole for piece in re.split("[^0-9A-Za-z]+", form) if len(piece) >= 4}
        self._texts = {text.casefold() for text in whole | pieces}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def are_in(self, message: str) -> bool:
        """Return whether a message holds any of them."""
        return any(text in message.casefold() for text in self._texts)


@dataclass(frozen=True, repr=False)
class Url:
    """A well-formed URL; only `shown` may be shown."""

    shown: str
    scheme: str
    account: str
    bucket: str
    path: str
    """Without slashes at its ends."""
    options: dict[str, str]
    secrets: Secrets


def local_path(location: str) -> str | None:
    """Return the path of a folder on a disk, or None if the location is a URL."""
    if location.startswith("file:///"):
        return unquote(location.removeprefix("file://"))
    if "://" in location:
        return None
    if _ALMOST_A_URL.match(location):
        raise StoreError(
            "cannot open the location: it looks like a URL but has no ://; write s3://bucket/folder, with two slashes, "
            f"or ./NAME for a folder on a disk. {_NOT_SHOWN}"
        )
    return location


def parse(location: str) -> Url:
    """Return the parts of a URL; refuse one in which it is uncertain where the credentials end."""
    found = _URL.fullmatch(location)
    if found is None:
        raise StoreError(f"cannot open the URL: it must be written s3://bucket/folder?option=value. {_NOT_SHOWN}")
    scheme, authority, path, query = found[1].lower(), *found.groups()[1:]
    account, _, bucket = authority.rpartition("@")
    if not bucket:
        raise StoreError(f"cannot open the URL: it names no bucket; write {scheme}://bucket/folder. {_NOT_SHOWN}")
    if not (_BUCKET if scheme == "s3" else _HOST).fullmatch(bucket) or "@" in path or "@" in unquote(query):
        raise StoreError(
            f"cannot open the URL: between {scheme}:// and the next slash there is no bucket, or there is a @ after "
            "it; in a key or secret, write / ? # and @ as %2F %3F %23 and %40, or better set it in the environment. "
            f"{_NOT_SHOWN}"
        )
    options = parse_qsl(query, keep_blank_values=True)
    hidden = [text for option in options if option[0] not in SHOWN_OPTIONS for text in option]
    container = account if scheme in AZURE and _CONTAINER.fullmatch(account) else ""
    shown = f"{scheme}://{container}{'@' * bool(container)}{bucket}{path}"
    if query and not hidden:
        shown += f"?{query}"
    _refuse_unknown(shown, options)
    secrets = Secrets() if container else Secrets(account, *account.split(":"))
    return Url(shown, scheme, account, bucket, unquote(path).strip("/"), dict(options), secrets)


def _refuse_unknown(shown: str, options: list[tuple[str, str]]) -> None:
    for key, value in options:
        if key not in SHOWN_OPTIONS:
            raise StoreError(f"cannot open {shown}: it has an unknown option{did_you_mean(key, SHOWN_OPTIONS)}")
        if key in SWITCHES and value not in ("true", "false"):
            raise StoreError(f"cannot open {shown}: {key} must be true or false, got {value!r}")
