"""The request types, one module each; a module has the name of its type."""
