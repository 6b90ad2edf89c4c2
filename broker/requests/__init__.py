"""What the handlers of both protocols share: appending, fetching, conversions, work in steps."""
