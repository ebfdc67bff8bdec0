# SPDX-License-Identifier: Apache-2.0
"""What the checks of the source tree share: their command line and how they report."""
import argparse
import pathlib


def run(name, about, check_tree):
    """Prints the problems that check_tree(root) finds, one a line; gives the exit status."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    problems = check_tree(parser.parse_args().root)
    print("\n".join(problems) or f"{name}: ok")
    return 1 if problems else 0
