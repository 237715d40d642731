"""`python -m sampan`."""

from sampan.cli.main import main

main()
