"""The request type ``balance``: moves and swaps that lower the score of a node group."""
