# SPDX-License-Identifier: MIT
"""What the user can mend: one line on standard error, no traceback."""

import click


class UserError(click.ClickException):
    """A line that names the faulty value and the remedy; ends the command with exit_code."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
