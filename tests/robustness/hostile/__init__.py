"""A hostile server: relays in front of the real ones spoil replies, and clients must bear it."""
