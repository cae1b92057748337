"""The request types that find nodes for single instances or for a batch of new ones."""
