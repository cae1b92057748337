"""The user of a RAPI daemon, its address, and the certificate it must show."""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from ganeti_steward.core.errors import StewardError, reason_of
from ganeti_steward.core.safe_files import read_in_time

PORT: Final = 5080
USER_VARIABLE: Final = "GNT_STEWARD_RAPI_USER"
PASSWORD_VARIABLE: Final = "GNT_STEWARD_RAPI_PASSWORD"

#: Bytes of a file with user and password.
_LONGEST: Final = 2**16
#: Seconds until a FIFO has given them; a person may have to unlock a store of passwords.
_WAIT: Final = 60.0

#: The name in every certificate that Ganeti makes for itself.
_OWN_NAME: Final = "ganeti.example.com"


class Credentials(NamedTuple):
    """User and password."""

    user: str
    password: str


def read_credentials(path: str | None, environment: Mapping[str, str]) -> Credentials | None:
    """User and password from a file or the environment; None: call without.

    The file has one line with both, separated by a blank or a colon, and must be closed to
    others.
    """
    if path is None:
        user, password = environment.get(USER_VARIABLE), environment.get(PASSWORD_VARIABLE)
        if user and password is not None:
            return Credentials(user, password)
        if user or password:
            raise StewardError(f"{USER_VARIABLE} and {PASSWORD_VARIABLE} belong together")
        return None
    try:
        mode = os.stat(path).st_mode
        text = read_in_time(path, _LONGEST, _WAIT).decode()
    except PermissionError:
        raise StewardError(
            f"{path}: permission denied; run the command as root or as the owner of this file"
        ) from None
    except (OSError, ValueError) as err:
        raise StewardError(f"{path}: {reason_of(err)}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise StewardError(
            f"{path}: the file is open to others (mode {stat.S_IMODE(mode):04o}); "
            f"chmod 600 {path} closes it"
        )
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    separator = ":" if lines and ":" in lines[0].split(maxsplit=1)[0] else None
    parts = lines[0].strip().split(separator, 1) if len(lines) == 1 else []
    if len(parts) != 2:
        raise StewardError(f"{path}: one line with user and password is expected")
    return Credentials(parts[0], parts[1])


def base_url(host: str) -> str:
    """``HOST``, ``HOST:PORT`` or an URL as the URL of the API; raises StewardError."""
    given = host if "://" in host else f"https://{host}"
    try:
        url = urlsplit(given)
        name, port = url.hostname, url.port
    except ValueError:
        name, port = None, None
        url = urlsplit("")
    if not name or url.scheme not in ("http", "https") or url.path not in ("", "/"):
        raise StewardError(f"no RAPI daemon: HOST or HOST:PORT is expected, found {host!r}")
    if url.username is not None or url.password is not None:
        raise StewardError(
            "every user of this machine can read user and password in the address; put "
            f"them in a file (--rapi-credentials) or in {USER_VARIABLE} and {PASSWORD_VARIABLE}"
        )
    shown = f"[{name}]" if ":" in name else name
    return f"{url.scheme}://{shown}:{PORT if port is None else port}"


class Pinned(HTTPAdapter):
    """Connections that take one certificate only, whatever name it is for."""

    def __init__(self, fingerprint: str | None) -> None:
        self._fingerprint = fingerprint
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **more: Any) -> None:
        """What requests calls to make its pool of connections."""
        if self._fingerprint is not None:
            more["assert_fingerprint"] = self._fingerprint
            # Python 3.13 and newer refuse Ganeti's own certificate, which has no extensions.
            context = more["ssl_context"] = create_urllib3_context()
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        super().init_poolmanager(*arguments, **more)


def own_fingerprint(path: str) -> str | None:
    """The certificate in a file if it is one that Ganeti made for itself.

    Such a certificate is for the name ganeti.example.com on every cluster, so the name of
    the machine cannot be compared; that it is this very certificate proves more.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except OSError as err:
        raise StewardError(f"{path}: no certificates: {err.strerror or err}") from None
    raw = context.get_ca_certs(binary_form=True)
    found: list[Any] = list(context.get_ca_certs())
    subjects = [dict(pair for (pair,) in one["subject"]) for one in found]
    if [subject.get("commonName") for subject in subjects] != [_OWN_NAME]:
        return None
    return hashlib.sha256(raw[0]).hexdigest()
