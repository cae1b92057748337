"""Sources of findings apart from collectors: whitelisted commands and Nagios checks."""
