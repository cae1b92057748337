"""The program Ganeti calls: reads the message, calls the allocators, writes the answer."""
