"""Allocators that are called for comparison only; they are logged and never answer."""
