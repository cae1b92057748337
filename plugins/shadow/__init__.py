"""Allocators that are asked beside the answer, compared and logged; they never answer."""
