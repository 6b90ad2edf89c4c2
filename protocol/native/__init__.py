"""The native protocol: frames, requests and responses, without I/O."""
