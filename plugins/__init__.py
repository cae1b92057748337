"""Built-in policy plugins: constraints, job filters, repairs, notifiers."""
