"""A cluster made of values in which everything can go wrong, with the daemon's own code inside.

One seed, one clock: `history` plays a history, `invariants` says what must hold after every effect.
Only sockets, clock and threads of the daemon are replaced.
"""
