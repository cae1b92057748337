"""The work of Ganeti's ``harep``: repairs of instances as far as their autorepair tags allow.

``tags`` reads what the tags say; ``health`` what is wrong with an instance; ``decide`` what is done
about it now.  Only ``plugin`` knows the daemon.
"""
