"""The commands about placement: explain, place, balance, check, capacity, replay and others."""
