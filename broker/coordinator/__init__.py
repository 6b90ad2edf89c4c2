"""Consumer groups: state machines without I/O, and what keeps them in `__consumer_offsets`."""
