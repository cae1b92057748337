"""Actions of rules that are plugins: what they decide, and which held jobs are released."""
