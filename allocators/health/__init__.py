"""What is wrong with a cluster, how severe it is, and what a failure of nodes would do.

Only for people, never on Ganeti's path.
"""
