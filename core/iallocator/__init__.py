"""The program Ganeti calls: reads the message, asks the allocators, writes the answer."""
