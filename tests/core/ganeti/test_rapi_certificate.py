"""The RAPI client with the certificate that Ganeti makes for itself."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from daemons import Rapid, rapi

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti.rapi import Rapi

GANETI: Final = Path("/usr/share/ganeti/default")

#: Makes a certificate with its key in each file named.
SOURCE: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from ganeti.utils import x509
for number, file in enumerate(sys.argv[2:]):
    x509.GenerateSelfSignedSslCert(file, number + 1)
"""

needs_ganeti = pytest.mark.skipif(not GANETI.exists(), reason="needs the package ganeti")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files, as rapi.pem of two clusters."""
    files = [str(tmp_path_factory.mktemp("rapi") / name) for name in ("own.pem", "other.pem")]
    subprocess.run(["/usr/bin/python3", "-c", SOURCE, str(GANETI), *files], check=True)
    return files


@contextmanager
def encrypted(file: str) -> Iterator[Rapid]:
    """A daemon that answers with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with rapi(lambda *_: (200, {"name": "cluster.lab"})) as daemon:
        daemon.socket = context.wrap_socket(daemon.socket, server_side=True)
        yield daemon


def url(daemon: Rapid) -> str:
    return f"https://127.0.0.1:{daemon.server_port}"


@needs_ganeti
def test_the_named_certificate_is_trusted(certificates: list[str]) -> None:
    """It has no extensions; since Python 3.13 such a certificate is refused by default."""
    with encrypted(certificates[0]) as daemon:
        assert Rapi(url(daemon), verify=certificates[0]).info() == {"name": "cluster.lab"}


@needs_ganeti
@pytest.mark.parametrize("other", [True, False], ids=["another cluster's", "none named"])
def test_any_other_is_refused(certificates: list[str], other: bool) -> None:
    with encrypted(certificates[0]) as daemon:
        client = Rapi(url(daemon), verify=certificates[1] if other else True)
        with pytest.raises(StewardError, match="the certificate is not trusted"):
            client.info()
        assert daemon.requests == []
