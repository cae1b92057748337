"""What can report findings besides collectors: whitelisted commands and Nagios checks."""
