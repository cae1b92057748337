"""What goes wrong, and what people and other programs do meanwhile: an event for each kind."""
