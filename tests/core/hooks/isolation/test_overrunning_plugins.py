"""A plugin that does not end is stopped after its limit, and named."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from ganeti_steward.core.errors import PluginError
from ganeti_steward.core.hooks import timed_call

if TYPE_CHECKING:
    from sites import Capture, Site

#: Seconds; what a test may take is far above, as machines are busy.
LIMIT: Final = 0.3
ENOUGH: Final = 60

HANGING: Final = {
    "busy": "while True: pass",
    "busy elsewhere": "sum(1 for _ in itertools.count())",
    "sleep": "time.sleep(3600)",
    "lock": "import threading\n    threading.Event().wait()",
    "pipe": "os.read(os.pipe()[0], 1)",
    "child": "import subprocess\n    subprocess.run(['sleep', '3600'])",
    "endless generator": "for _ in itertools.count(): yield from ()",
}

#: Plugins that try hard not to be stopped.
RESISTING: Final = {
    "except": """
    while True:
        try:
            time.sleep(3600)
        except Exception:
            pass
    """,
    "bare except": """
    while True:
        try:
            time.sleep(3600)
        except:
            pass
    """,
    "busy bare except": """
    while True:
        try:
            sum(range(1000))
        except BaseException:
            continue
    """,
    "nested": """
    def inner():
        while True:
            try:
                time.sleep(3600)
            except BaseException as err:
                str(err)
    while True:
        try:
            inner()
        except BaseException:
            time.sleep(0.001)
    """,
    "long cleaning up": """
    try:
        time.sleep(3600)
    finally:
        time.sleep(3600)
    """,
    "half done": """
    found = []
    try:
        time.sleep(3600)
    except BaseException:
        return found
    """,
    "another error": """
    try:
        time.sleep(3600)
    except BaseException:
        raise ValueError("interrupted")
    """,
}


def hanging(site: Site, hook: str, body: str) -> None:
    site.plugin("endless", f"@hookimpl\ndef {hook}(cluster):\n    {body.strip()}\n")


@pytest.mark.parametrize("hook", ["steward_constrain", "steward_weigh"])
@pytest.mark.parametrize("body", HANGING.values(), ids=HANGING)
def test_rules(site: Site, capture: Capture, hook: str, body: str) -> None:
    hanging(site, hook, body)
    site.configure("endless", limit=LIMIT)
    started = time.monotonic()
    info = site.refused(capture("allocate-drbd"))
    assert info == "plugin endless: took longer than its 0.3 s and was stopped"
    assert time.monotonic() - started < ENOUGH


def test_allocator(site: Site, capture: Capture) -> None:
    hanging(site, "steward_allocate", HANGING["busy"])
    chain = '[allocators]\nallocate = ["endless"]\ntime-limit = 1\n'
    site.configure("endless", more=chain)
    info = site.refused(capture("allocate-drbd"))
    assert info == "plugin endless: took longer than its 1 s and was stopped"


def test_next_allocator(site: Site, capture: Capture) -> None:
    hanging(site, "steward_allocate", HANGING["sleep"])
    chain = '[allocators]\nallocate = ["endless", "balanced"]\ntime-limit = 1\n'
    site.configure("endless", more=chain)
    assert set(site.place(capture("allocate-drbd"))) == {"node1.lab", "node2.lab"}


def test_limit_of_the_allocator_ends_first(site: Site, capture: Capture) -> None:
    """The running plugin is named, not the allocator that called it."""
    hanging(site, "steward_constrain", HANGING["sleep"])
    site.configure("endless", limit=60, more="[allocators]\ntime-limit = 1\n")
    info = site.refused(capture("allocate-drbd"))
    assert info == (
        "plugin endless: was running when the 1 s of balanced were over and was stopped"
    )


def test_slow_but_in_time(site: Site, capture: Capture) -> None:
    hanging(site, "steward_constrain", "time.sleep(0.2)\n    return []")
    site.configure("endless", limit=60)
    assert site.place(capture("allocate-drbd"))


def test_each_call_has_its_own_time(site: Site, capture: Capture) -> None:
    """Two instances, two calls of 1 s; together they are over the limit."""
    hanging(site, "steward_constrain", "time.sleep(1)\n    return []")
    site.configure("endless", limit=1.9)
    assert site.place(capture("multi-allocate-two"))


@pytest.mark.parametrize("name", [*HANGING, *RESISTING])
def test_real_process(site: Site, capture: Capture, name: str) -> None:
    body = {**HANGING, **RESISTING}[name]
    hanging(site, "steward_constrain", body)
    site.configure("endless", limit=LIMIT)
    answer = site.run(capture("allocate-drbd"))
    assert answer["success"] is False
    fault = "took longer than its 0.3 s and was stopped"
    assert answer["info"] == f"Request failed: plugin endless: {fault}"


@pytest.mark.parametrize("name", ["bare except", "long cleaning up"])
def test_resisting_allocator(site: Site, capture: Capture, name: str) -> None:
    hanging(site, "steward_allocate", RESISTING[name])
    chain = '[allocators]\nallocate = ["endless", "balanced"]\ntime-limit = 1\n'
    site.configure("endless", more=chain)
    assert set(site.run(capture("allocate-drbd"))["result"]) == {"node1.lab", "node2.lab"}


def test_a_built_in_plugin_is_stopped() -> None:
    """By an alarm, as only built-in plugins run in this process; nothing of it is left behind."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(PluginError, match="plugin endless: took longer than its"):
        timed_call.call("endless", 0.05, lambda: time.sleep(3600))
    assert timed_call.call("quick", 5, lambda: 7) == 7
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_outermost_call_of_built_in_plugins_is_limited() -> None:
    def outer() -> None:
        assert timed_call.call("inner", 0.01, lambda: time.sleep(0.1) or 7) == 7
        time.sleep(3600)

    with pytest.raises(PluginError, match="plugin outer: took longer than its"):
        timed_call.call("outer", 0.5, outer)


def test_outside_the_main_thread() -> None:
    """No limit there, but errors are still the plugin's."""
    found: list[object] = []

    def work() -> None:
        found.append(timed_call.call("quick", 0.01, lambda: 7))
        try:
            timed_call.call("broken", 0.01, lambda: 1 / 0)
        except PluginError as err:
            found.append(str(err))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(ENOUGH)
    assert found == [7, "plugin broken: failed: ZeroDivisionError: division by zero"]
