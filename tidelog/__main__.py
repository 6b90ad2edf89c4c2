"""`python -m tidelog`: the tidelog command."""

from tidelog.cli.main import run

if __name__ == "__main__":
    run()
