"""Objects in a bucket of an object store, over obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure.

An object of up to 8 MB is one request; a larger one is uploaded in parts and becomes visible when the last request
succeeds.
"""

import configparser
import os
import re
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import obstore
from obstore.store import AzureStore, GCSStore, S3Store

from offpiste.errors import StoreError
from offpiste.store.disk import Stat
from offpiste.store.urls import AZURE, Url

PART_BYTES = 8 * 2**20
MAX_PARTS_AT_ONCE = 4
MAX_RETRIES = 3
SILENT_SECONDS = 20.0
"""A server that sends nothing for so long is given up."""
REQUEST_SECONDS = 900.0
_HEADER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN")
_DENIED = "401 Unauthorized|403 Forbidden"
_ADVICE = {
    "169[.]254[.]169[.]254": "no keys were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for an s3:// URL",
    "NoSuchBucket": "create the bucket first",
    _DENIED: "check the keys and their permissions",
    "error sending request": "is the address right and the server up? one without TLS needs &scheme=http in the URL",
}
"""What to do, by a sign in the reason; without keys, obstore asks the address in the first for the machine's role."""
_AZURE_HOST = re.compile(r"(?P<account>[a-z0-9]+)\.(dfs|blob)\.core\.windows\.net")


class Bucket:
    """Objects in a bucket, by their keys; errors are those of obstore."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        obstore.put(self._store, path, data, chunk_size=PART_BYTES, max_concurrency=MAX_PARTS_AT_ONCE)

    def get(self, path: str, max_bytes: int | None) -> bytes | None:
        """Return the bytes of an object, or None if there is none."""
        try:
            if max_bytes is None:
                return bytes(obstore.get(self._store, path).bytes())
            return bytes(obstore.get(self._store, path, options={"range": (0, max_bytes)}).bytes())
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            return None
        except obstore.exceptions.GenericError as error:
            if max_bytes is not None and "416" in str(error):  # a range of an empty object
                return b""
            raise

    def entries(self, path: str) -> tuple[dict[str, Stat], list[str]]:
        """Return the objects directly below a prefix, by name, and the prefixes there."""
        found = obstore.list_with_delimiter(self._store, f"{path}/" if path else "")
        files = {
            Path(one["path"]).name: Stat(one["size"], one["last_modified"].timestamp())
            for one in found["objects"]
            if one["path"] != path  # which other libraries write to make a folder visible
        }
        return files, [Path(prefix).name for prefix in found["common_prefixes"]]

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        with suppress(FileNotFoundError):
            obstore.delete(self._store, path)

    def sweep(self, path: str, seconds: float) -> None:
        """Do nothing: parts of an upload that was never finished are left to a rule of the bucket."""


def open_bucket(url: Url) -> Bucket:
    """Open the bucket of a URL; keys come from the URL, the environment, a file of AWS's, or the machine's role."""
    common: dict[str, Any] = {
        "retry_config": {"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=SILENT_SECONDS)},
        "client_options": _client_options(url),
    }
    if url.scheme == "s3":
        return Bucket(S3Store(url.bucket, **_s3_options(url), **common))
    if url.options:
        raise StoreError(f"cannot open {url.shown}: options are for s3:// only")
    if url.scheme in ("gs", "gcs") and not url.account:
        return Bucket(GCSStore(url.bucket, **common))
    azure = _AZURE_HOST.fullmatch(url.bucket)
    if url.scheme in AZURE and azure and url.account and not url.secrets:
        return Bucket(AzureStore(url.account, account_name=azure["account"], **common))
    raise StoreError(
        f"cannot open {url.shown}: write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, "
        "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, or the path of a folder"
    )


def reason_of(error: Exception) -> str:
    """Return why a request failed, as one line: of a server's answer only code and message, since it may echo keys."""
    if isinstance(error, urllib.error.URLError):
        error = OSError(error.reason)  # its own text is in angle brackets, like an answer
    text = str(error).partition("\n\nDebug source")[0]
    head, xml, body = text.partition("<")
    if xml:
        answer = [
            found[1] for name in ("Code", "Message") if (found := re.search(f"<{name}>(.*?)</{name}>", body + xml))
        ]
        text = f"{head} {': '.join(filter(None, answer))}"
    return " ".join(text.split())


def advice_on(reason: str) -> str:
    """Return what to do about the reason of a failed request, or ""."""
    return next((advice for sign, advice in _ADVICE.items() if re.search(sign, reason)), "")


def is_denied(reason: str) -> bool:
    """Return whether a request failed because the server refused it."""
    return re.search(_DENIED, reason) is not None


def _client_options(url: Url) -> dict[str, Any]:
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=SILENT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    if url.options.get("scheme") == "http":
        options["allow_http"] = True
    if file := url.options.get("tls_ca_file_path"):
        options["root_certificate"] = Path(file).read_bytes()
    return options


def _s3_options(url: Url) -> dict[str, Any]:
    options: dict[str, Any] = {"virtual_hosted_style_request": url.options.get("force_virtual_addressing") == "true"}
    if endpoint := url.options.get("endpoint_override"):
        options["endpoint"] = f"{url.options.get('scheme', 'https')}://{endpoint.removeprefix('https://')}"
    options["region"] = url.options.get("region") or _region(url)
    if url.options.get("anonymous") == "true":
        options["skip_signature"] = True
    elif url.account:
        key, _, secret = url.account.partition(":")
        options |= {"access_key_id": unquote(key), "secret_access_key": unquote(secret)}
    else:
        options |= _keys_in_file()
    given = [options.get("access_key_id"), options.get("session_token"), *map(os.environ.get, _HEADER_KEYS)]
    if any(key and not (key.isascii() and key.isprintable()) for key in given):
        raise StoreError(f"cannot open {url.shown}: a key must be printable ASCII; it is not shown")
    return options


def _region(url: Url) -> str:
    """Return the region of a bucket whose URL names none: the environment's, or what the server says."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if region := os.environ.get(name):
            return region
    if "endpoint_override" in url.options:
        return "us-east-1"  # gateways of one's own have no regions
    request = urllib.request.Request(f"https://{url.bucket}.s3.amazonaws.com", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            headers = answer.headers
    except urllib.error.HTTPError as error:  # it has the region even for those who may not read the bucket
        headers = error.headers
    except OSError as error:
        raise StoreError(f"cannot open {url.shown}: its region is unknown ({error}); add ?region=REGION") from None
    if region := headers.get("x-amz-bucket-region"):
        return str(region)
    raise StoreError(f"cannot open {url.shown}: there is no such bucket; add ?region=REGION if there is")


def _keys_in_file() -> dict[str, str]:
    """Return the keys of the chosen profile in AWS's file, if the environment has none; obstore does not read it."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return {}
    file = configparser.ConfigParser(interpolation=None)
    try:
        file.read(Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser())
    except configparser.Error:
        return {}
    profile = os.environ.get("AWS_PROFILE", "default")
    names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key"}
    names["aws_session_token"] = "session_token"  # noqa: S105
    found = dict(file[profile]) if file.has_section(profile) else {}
    return {ours: found[theirs] for theirs, ours in names.items() if theirs in found}
