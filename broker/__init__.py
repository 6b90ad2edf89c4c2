"""The Tidelog daemon."""
