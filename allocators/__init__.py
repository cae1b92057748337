"""Placement engines: the allocators are the modules here, what they share is in the folders.

Order of the folders: state, rules, score, placement, capacity, moves; balancing uses the first
three; cli is on top.
"""
