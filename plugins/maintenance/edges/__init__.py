"""Everything outside: records, jobs, node agents, the status page, the audit log."""
