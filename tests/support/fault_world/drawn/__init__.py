"""What is drawn from the seed of a history: the cluster, its settings, and the faults."""
