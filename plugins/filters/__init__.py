"""Job filters: what Ganeti's rules do to jobs, evaluated here instead of in the queue.

Directly here: the language of rules, the two dialects, the chain of rules, and one pass of the
scheduler.  Nothing here talks to Ganeti except ``cli``, which has the commands.
"""
