"""The command `watersmeet`, also as `python -m watersmeet`. An interrupt is heard while modules are imported, too."""

import gc
import sys


def main() -> int:
    """Run the command line of the process, and return the exit code."""
    try:
        # What is imported stays. To look for garbage in it, again and again, takes up to a fifth of the CPU of a start.
        gc.disable()
        from watersmeet.cli.main import make_parser, run_parsed

        args = make_parser().parse_args()
        gc.freeze()
        gc.enable()
        return run_parsed(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
