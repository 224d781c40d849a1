"""`python -m remora` is the `remora` program."""

import os
import sys

from . import program


def main():
    os.execv(program(), ["remora"] + sys.argv[1:])


if __name__ == "__main__":
    main()
