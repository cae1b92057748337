"""Rounds in the foreground, which act for one incident only and observe everything else.

They have the daemon's lock, so no daemon runs on this machine meanwhile; vote, records and engine
are the daemon's as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from ganeti_steward.core.config.values import Config
from ganeti_steward.core.ganeti.hmac_key import KeyFile
from ganeti_steward.core.log import set_up
from ganeti_steward.core.process.descendants import end_children
from ganeti_steward.plugins.lock_file import lock_file
from ganeti_steward.plugins.maintenance.config import OBSERVE, Maintd
from ganeti_steward.plugins.maintenance.daemon.mastership import Voting, require_master
from ganeti_steward.plugins.maintenance.daemon.options import DaemonOptions
from ganeti_steward.plugins.maintenance.daemon.parts import Observers, Parts, Round
from ganeti_steward.plugins.maintenance.daemon.process import Daemon, lock_place
from ganeti_steward.plugins.maintenance.daemon.reporting import KEPT, AuditReport
from ganeti_steward.plugins.maintenance.daemon.rounds import Rounds
from ganeti_steward.plugins.maintenance.daemon.wakeup import DaemonStopped, Signals, Wakeup
from ganeti_steward.plugins.maintenance.edges.audit import Audit

_log: Final = logging.getLogger(__name__)


def run_only(
    options: DaemonOptions,
    config: Config,
    request: Callable[[], str],
    is_over: Callable[[Round], bool],
    report: Callable[[str], None],
) -> bool:
    """Run rounds for one incident; whether it is over.  False: a signal has ended them before.

    ``request`` is called once this process is the only one: it records the incident if it must, and
    returns its uuid.  ``is_over`` gets each round; ``report`` the sentence of an undecided vote.
    Raises StewardError, also NotMaster.
    """
    # A command logs nothing but warnings otherwise.
    set_up(config.log.file, config.log.level)
    signals = Signals(Wakeup(), hangup_ends=True)
    try:
        with lock_file(lock_place(config.section(Maintd))), signals.handled():
            return _Foreground(options, config, signals).run_only(request, is_over, report)
    except DaemonStopped:
        return False
    finally:
        end_children()


class _Foreground(Daemon):
    """The daemon without its status, for one incident."""

    def run_only(
        self,
        request: Callable[[], str],
        is_over: Callable[[Round], bool],
        report: Callable[[str], None],
    ) -> bool:
        """See `run_only`; raises DaemonStopped, too."""
        configured, over = self._configured, False

        def ends(outcome: Round) -> bool:
            nonlocal over
            over = is_over(outcome)
            return over

        voting = self._options.voting(lambda: KeyFile(configured.settings.key_file))
        won = require_master(voting, self._pause, report)
        uuid = request()
        _log.info("maintenance run begins incident=%s: %s", uuid, won.reason)
        with ExitStack() as stack:
            stack.callback(configured.stop)
            configured.agents.start_polling()
            parts = self._only(voting, uuid)._replace(is_over=ends)
            # Whatever looks at the mode only does nothing, too.
            Rounds(parts, configured.settings._replace(mode=OBSERVE), self._signals).run()
        _log.info("maintenance run ends incident=%s", uuid)
        return over

    def _only(self, voting: Voting, uuid: str) -> Parts:
        """Parts that begin what the incident needs, and nothing else; the audit log is made."""
        audit = Audit(self._configured.settings.audit_file)
        audit.start(time.time_ns())
        history = AuditReport(audit, audit.latest(KEPT))
        observers = Observers({**self._notes(history), **self._keepers()})
        return self._deciding()._replace(voting=voting, observers=observers, only=uuid)
