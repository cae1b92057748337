"""Decides what is done next; no clock, file or socket is used here."""
