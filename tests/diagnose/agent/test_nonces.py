"""Nonces and penalties, by an injected clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from ganeti_steward.core.ganeti.signing import is_nonce, is_salt
from ganeti_steward.core.service.callers import LOCAL, Callers, own_addresses
from ganeti_steward.diagnose.agent import nonces, penalties
from ganeti_steward.diagnose.agent.nonces import Nonces
from ganeti_steward.diagnose.agent.penalties import Penalties

LIFE = 30.0


class Clock:
    """Seconds that pass when a test requests it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def given(clock: Clock) -> Nonces:
    numbers: Iterator[int] = count()
    return Nonces(lambda: f"{next(numbers):032}", clock, LIFE)


def test_a_nonce_is_good_once(given: Nonces) -> None:
    nonce = given.give("master")
    assert is_nonce(nonce)
    assert not is_salt(nonce)
    assert [given.take(nonce, "master") for _ in range(3)] == [True, False, False]
    assert len(given) == 0


def test_a_nonce_that_was_not_given(given: Nonces) -> None:
    nonce = given.give("master")
    others = ["", nonce[:-1], nonce + "0", nonce.upper(), "nonce." + "9" * 32]
    assert not any(given.take(one, "master") for one in others)
    assert given.take(nonce, "master")


def test_a_nonce_ends(given: Nonces, clock: Clock) -> None:
    early, late = given.give("master"), given.give("master")
    clock.now += LIFE - 0.001
    assert given.take(early, "master")
    clock.now += 0.001
    assert not given.take(late, "master")
    assert len(given) == 0


def test_another_caller_cannot_use_it_up(given: Nonces) -> None:
    nonce = given.give("master")
    assert not given.take(nonce, "other")
    assert given.take(nonce, "master")


def test_a_caller_loses_its_own_oldest(given: Nonces) -> None:
    masters = given.give("master")
    own = [given.give("greedy") for _ in range(nonces.MOST_OF_ONE + 3)]
    assert len(given) == nonces.MOST_OF_ONE + 1
    assert [given.take(nonce, "greedy") for nonce in own] == [False] * 3 + [True] * (len(own) - 3)
    assert given.take(masters, "master")


def test_many_callers_push_out_those_with_most(given: Nonces) -> None:
    masters = given.give("master")
    for number in range(2 * nonces.MOST):
        given.give(f"many{number % (nonces.MOST // 2)}")
    assert len(given) == nonces.MOST
    assert given.take(masters, "master")


def test_never_more_than_the_most(given: Nonces) -> None:
    for number in range(nonces.MOST + 100):
        given.give(f"caller{number}")
    assert len(given) == nonces.MOST


def test_another_process(clock: Clock) -> None:
    """One that was restarted knows none of the nonces of the one before."""
    nonce = Nonces(lambda: "1" * 32, clock, LIFE).give("master")
    assert not Nonces(lambda: "2" * 32, clock, LIFE).take(nonce, "master")


def test_one_of_many_threads_gets_it(given: Nonces) -> None:
    for _ in range(50):
        nonce = given.give("master")
        start = threading.Barrier(8)
        got: list[bool] = []

        def take(
            nonce: str = nonce, start: threading.Barrier = start, got: list[bool] = got
        ) -> None:
            start.wait()
            got.append(given.take(nonce, "master"))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("strange", "strange"),
        ("127.0.0.1", LOCAL),
        ("127.200.3.4", LOCAL),
        ("::ffff:127.0.0.1", LOCAL),
        ("::1", LOCAL),
        ("192.0.2.1", LOCAL),
        ("::ffff:192.0.2.1", LOCAL),
        ("2001:db8::1", LOCAL),
        ("2001:db8::2", "2001:db8::/64"),
    ],
)
def test_callers(address: str, expected: str) -> None:
    callers = Callers(lambda: frozenset({"192.0.2.1", "2001:db8::1"}), lambda: 0.0)
    assert callers(address) == expected


def test_own_addresses_change() -> None:
    """They are looked up again; where that fails, the last ones count."""
    clock, found = Clock(), [{"192.0.2.1"}, {"192.0.2.2"}]

    def addresses() -> frozenset[str]:
        if not found:
            raise OSError("no sockets left")
        return frozenset(found.pop(0))

    callers = Callers(addresses, clock)
    for own in ("192.0.2.1", "192.0.2.2", "192.0.2.2"):
        clock.now += 60
        assert [callers(one) for one in ("192.0.2.1", "192.0.2.2")].count(LOCAL) == 1
        assert callers(own) == LOCAL


def test_the_addresses_of_this_machine() -> None:
    assert "127.0.0.1" in own_addresses()


def test_penalties_double(clock: Clock) -> None:
    shut = Penalties(clock)
    assert not shut.is_shut_out("forger")
    lengths = []
    for _ in range(8):
        lengths.append(shut.punish("forger"))
        assert shut.is_shut_out("forger")
        clock.now += lengths[-1] - 0.001
        assert shut.is_shut_out("forger")
        clock.now += 0.001
        assert not shut.is_shut_out("forger")
    assert lengths == [1, 2, 4, 8, 16, 32, 60, 60]


def test_others_are_not_concerned(clock: Clock) -> None:
    shut = Penalties(clock)
    for _ in range(100):
        shut.punish("forger")
    assert not shut.is_shut_out("master")
    assert shut.punish("master") == penalties.FIRST


def test_what_was_under_way_together_counts_once(clock: Clock) -> None:
    shut = Penalties(clock)
    assert [shut.punish("forger") for _ in range(5)] == [1] * 5
    clock.now += 1
    assert [shut.punish("forger") for _ in range(5)] == [2] * 5


def test_asking_in_vain_makes_it_no_longer(clock: Clock) -> None:
    shut = Penalties(clock)
    shut.punish("forger")
    for _ in range(10):
        clock.now += 0.1
        shut.is_shut_out("forger")
    assert not shut.is_shut_out("forger")


def test_forgotten_after_quiet(clock: Clock) -> None:
    shut = Penalties(clock)
    for _ in range(5):
        shut.punish("forger")
        clock.now += 100
    clock.now += penalties.FORGOTTEN
    assert shut.punish("forger") == penalties.FIRST


def test_forgiven(clock: Clock) -> None:
    shut = Penalties(clock)
    shut.punish("master")
    clock.now += 1
    shut.forgive("master")
    shut.forgive("unknown")
    assert shut.punish("master") == penalties.FIRST


def test_the_table_is_bounded(clock: Clock) -> None:
    shut = Penalties(clock)
    for number in range(penalties.MOST + 100):
        shut.punish(f"forger{number}")
    assert len(shut) == penalties.MOST
    assert not shut.is_shut_out("forger99")
    assert shut.is_shut_out("forger100")
