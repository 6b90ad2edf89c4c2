"""What a program that uses Tidelog imports."""
