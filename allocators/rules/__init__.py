"""Which node may take which instance in which role (allocation 4), for placing and for moving."""
