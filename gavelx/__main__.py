"""``python -m gavelx`` is the command ``gavelx``."""

from gavelx.cli import main

if __name__ == "__main__":  # worker processes import this file again
    main()
