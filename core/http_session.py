"""HTTP of the library requests, for servers that are not trusted.

What a server sends is limited by what is read of it: no compression is requested or accepted, and
no redirect is followed.  Of a redirect the library would read the whole body, decompressed, even
where it does not follow it.
"""

from __future__ import annotations

from typing import Any, Final

import requests

#: Bytes of an answer that are read at a time.
_PART: Final = 2**20


class Session(requests.Session):
    """Makes requests; an answer is read by `read_whole`, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.headers["Accept-Encoding"] = "identity"

    def get_redirect_target(self, resp: requests.Response) -> None:
        """What requests calls to find the target of a redirect: there is none."""

    def request(self, *arguments: Any, **more: Any) -> requests.Response:
        """An answer whose body is not read yet; raises requests' exceptions."""
        more |= {"allow_redirects": False, "stream": True}
        return super().request(*arguments, **more)


def read_whole(answer: requests.Response, longest: int) -> bytes:
    """The body of an answer; ``longest``: bytes it may have.

    Raises requests' exceptions, with one sentence for a body that is too long or compressed.
    """
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        raise requests.RequestException("the answer is compressed, which was not requested")
    body = bytearray()
    for part in answer.iter_content(_PART):
        body += part
        if len(body) > longest:
            raise requests.RequestException(f"the answer is longer than {longest} bytes")
    return bytes(body)
