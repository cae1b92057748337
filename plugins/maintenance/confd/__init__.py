"""The client of confd: messages, the queries over UDP, and which of several replies counts."""
