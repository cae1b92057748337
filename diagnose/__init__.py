"""The node side: whitelisted commands, collectors, the signed report."""
