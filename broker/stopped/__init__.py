"""Reading the data directories of a stopped broker: verification and dumps."""
