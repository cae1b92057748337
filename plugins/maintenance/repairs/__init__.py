"""The built-in plugins that plan the next task of an incident."""
