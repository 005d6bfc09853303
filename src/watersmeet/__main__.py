"""The command `watersmeet`, also as `python -m watersmeet`. An interrupt is heard while modules are imported, too."""

import sys


def main() -> int:
    """Run the command line of the process, and return the exit code."""
    try:
        from watersmeet.cli.main import main as run_command

        return run_command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
