"""Which answers of an agent count: signed for this very request, of this node, and fresh."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ganeti_steward.core.errors import StewardError
from ganeti_steward.core.ganeti import signing
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.json_reader import describe

#: Seconds the clock of a node may be ahead; Ganeti warns of more, too.
_AHEAD: Final = 150

_SECOND: Final = 10**9

#: Why an answer is rejected, in one word each.
SIGNATURE: Final = "signature"
SALT: Final = "salt"
PURPOSE: Final = "purpose"
NODE: Final = "node"
FUTURE: Final = "future"
OLD: Final = "old"
FORM: Final = "form"
SIZE: Final = "size"


class RejectedAnswer(StewardError):
    """An answer that is ignored: badly signed, of another node, too old, malformed."""

    def __init__(self, reason: str, text: str) -> None:
        """``reason``: one of the words above."""
        self.reason = reason
        super().__init__(text)


def open_answer(key: KeyFile, raw: bytes, salt: str, purpose: str) -> dict[str, Any]:
    """The object in a signed answer that is for this purpose; raises RejectedAnswer, NoKey."""
    try:
        content = signing.strict_json(key.with_key(lambda key: signing.verify(key, raw, salt)))
    except signing.BadMessage as err:
        raise RejectedAnswer(_reason_of(err), str(err)) from None
    except ValueError:
        raise RejectedAnswer(FORM, "what is signed is not valid JSON") from None
    if not isinstance(content, dict):
        raise RejectedAnswer(FORM, f"an object is expected, found {describe(content)}")
    if content.get("purpose") != purpose:
        found = describe(content.get("purpose"))
        raise RejectedAnswer(PURPOSE, f"the answer has another purpose: {found}")
    return content


def _reason_of(err: signing.BadMessage) -> str:
    if isinstance(err, signing.WrongSignature):
        return SIGNATURE
    return SALT if isinstance(err, signing.WrongSalt) else FORM


def check_report(
    report: Mapping[str, Any], names: Collection[str], now: int, max_age: float
) -> None:
    """Check that a report is of this node and fresh; raises RejectedAnswer.

    ``names``: what the node may call itself; ``now``: ns since the epoch; ``max_age``: seconds.
    """
    data, taken = report.get("data"), report.get("timestamp")
    if data is None and "node" not in report:
        # An agent that has never had a report does not know what its node is called.
        return
    if report.get("node") not in names:
        found = describe(report.get("node"))
        raise RejectedAnswer(NODE, f"the report is about another node: {found}")
    if data is None:
        return
    if not isinstance(data, dict) or not isinstance(data.get("status"), str):
        raise RejectedAnswer(FORM, "the report's data are not a diagnose object")
    if type(taken) is not int:
        fault = f"timestamp: a whole number is expected, found {describe(taken)}"
        raise RejectedAnswer(FORM, fault)
    _check_age(now - taken, max_age)


def _check_age(age: int, max_age: float) -> None:
    """``age``: ns, negative in the future; ``max_age``: seconds."""
    seconds, ahead = age // _SECOND, min(_AHEAD, max_age)
    if age > max_age * _SECOND:
        raise RejectedAnswer(OLD, f"the report is {seconds} s old, more than {max_age:g} s")
    if age < -ahead * _SECOND:
        fault = f"the report is from the future, by {-seconds} s, more than {ahead:g} s"
        raise RejectedAnswer(FUTURE, fault)
