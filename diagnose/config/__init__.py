"""The configuration of the room: the declarations of its sections."""
