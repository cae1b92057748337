"""The request type ``capacity``: how many more instances fit, and what runs out first."""
